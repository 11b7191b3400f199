-- One row is one card with its timeline in cells of cell_ms from the window's start on. A cell is (number, observed ms active, idle-held,
-- truly-idle, unknown); empty cells are left out.
CREATE OR REPLACE VIEW gua_report.timeline $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES}
SELECT
    host,
    gpu,
    arraySort(groupArray((cell, active_ms, idle_held_ms, truly_idle_ms, unknown_ms))) AS cells
FROM
(
    SELECT
        host,
        gpu,
        cell,
        toInt64(round(sumIf(ms, state = ACTIVE))) AS active_ms,
        toInt64(round(sumIf(ms, state = IDLE_HELD))) AS idle_held_ms,
        toInt64(round(sumIf(ms, state = TRULY_IDLE))) AS truly_idle_ms,
        toInt64(round(sumIf(ms, state = UNKNOWN))) AS unknown_ms
    FROM
    (
        SELECT
            host,
            gpu,
            state,
            arrayJoin(range(
                toUInt64(intDiv(start_ms - {since_ms:Int64}, {cell_ms:Int64})),
                toUInt64(intDiv(end_ms - 1 - {since_ms:Int64}, {cell_ms:Int64}) + 1)
            )) AS cell,
            {since_ms:Int64} + toInt64(cell) * {cell_ms:Int64} AS cell_start_ms,
            observed_ms * (least(end_ms, cell_start_ms + {cell_ms:Int64}) - greatest(start_ms, cell_start_ms)) / (end_ms - start_ms) AS ms
        FROM ${INTERVALS_OF_CARDS}
    )
    GROUP BY ALL
)
GROUP BY ALL
;
-- One row is one of the `limit` longest processes of each card, and the card's number of processes. Sums of intervals suffice, as an idle
-- interval lies in one streak; names are those of the last interval.
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
