-- One row is one card that was observed in the window: what its newest tick found, since when it is idle-held or truly-idle, and
-- its idle-held GPU time by the streak it lies in. A streak is ticks of one state in a row: an active tick, or one of the other
-- idle state, ends it; an unknown tick, or a gap of up to twice the longer of the two ticks beside it, does not. watched_since: since
-- when there was no larger gap. free_ratio_at_this_hour: part of what was observed in the hour of the day of the newest tick, in the
-- given zone, in which the card was truly-idle. unknown_us: idle-held time of hours of which runs were not kept.
CREATE OR REPLACE VIEW gua_report.card_streaks $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES}
${CARD_STREAKS}
