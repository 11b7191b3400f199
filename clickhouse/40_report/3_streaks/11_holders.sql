-- One row is one process that the newest tick with processes of its card lists, at last_ms: what it is, whether it is idle, its memory,
-- since when it idles and for how long (idle_first_span_ms: the span of the first tick of that; known_before_ms: until when it was
-- known before what it did, or 0), when it was first listed, its active time in the 24 h before, and of the time on an idle-held card
-- GPU time, memory x time [KiB ms], the time of which that is known, and GPU time by price.
CREATE OR REPLACE VIEW gua_report.holders $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES}
${HOLDERS}
