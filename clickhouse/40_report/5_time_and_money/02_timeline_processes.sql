-- One row is one of the processes that were longest on a card, each card's `limit` of them, and how many it had in all.
CREATE OR REPLACE VIEW gua_report.timeline_processes $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES}
SELECT
    host,
    gpu,
    pid,
    owner,
    program,
    first_ms,
    last_ms,
    toInt64(arraySum(streaks.idle_ms)) AS idle_ms,
    toInt64(arraySum(arrayMap(run -> if(run.state = PROCESS_UNKNOWN, run.observed_ms, 0), runs))) AS unknown_ms,
    count() OVER (PARTITION BY host, gpu) AS processes,
    row_number() OVER (PARTITION BY host, gpu ORDER BY arraySum(runs.observed_ms) DESC, first_ms, pid) AS place
FROM gua_report.process_streaks(${WINDOW})
WHERE is_kept
QUALIFY place <= {limit:UInt32}
ORDER BY
    host,
    gpu,
    place
