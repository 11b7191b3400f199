-- One row is one of the processes that were longest on a card, each card's `limit` of them, and how many it had in all. Sums of runs
-- tell it: each idle run lies in one streak, and who it was is told by the last run. observed_ms is what ticks cover of its time there.
CREATE OR REPLACE VIEW gua_report.timeline_processes $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES}
SELECT
    host,
    gpu,
    pid,
    newest.1 AS owner,
    newest.2 AS program,
    first_ms,
    newest.3 AS last_ms,
    every_ms AS observed_ms,
    idle_ms,
    unknown_ms,
    count() OVER (PARTITION BY host, gpu) AS processes,
    row_number() OVER (PARTITION BY host, gpu ORDER BY every_ms DESC, first_ms, pid) AS place
FROM
(
    SELECT
        host,
        gpu,
        pid,
        created_ms,
        argMax((owner, program, end_ms), start_ms) AS newest,
        min(start_ms) AS first_ms,
        toInt64(sum(observed_ms)) AS every_ms,
        toInt64(sumIf(observed_ms, state = PROCESS_IDLE)) AS idle_ms,
        toInt64(sumIf(observed_ms, state = PROCESS_UNKNOWN)) AS unknown_ms
    FROM ${INTERVALS_OF_PROCESSES}
    GROUP BY ALL
)
QUALIFY place <= {limit:UInt32}
ORDER BY
    host,
    gpu,
    place
