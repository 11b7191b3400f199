-- One row is one owner (program, container, pod, job, kind, served-model, host, model; identity: owner and program) of processes on
-- cards. Times are by the state of the card; a truly-idle one is held by nobody. A session is one process. longest_idle_ms is a streak
-- of a process that had that name at its last run; NULL where no runs were kept, or nothing is known of what they did. holders are its
-- processes that the newest tick with processes of their card lists: (host, gpu, pid, created, identity, tick, whether idle, memory,
-- idle since, idle time, span of the first tick of that, until when it was known before what it did or 0, when it was first listed,
-- active time in the 24 h before, and of the time on an idle-held card GPU time, memory x time [KiB ms], the time of which that is
-- known, and GPU time by price). priced is GPU time by price and state of the card; what no price given counts for is left out.
CREATE OR REPLACE VIEW gua_report.usage $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES}
${USAGE}
