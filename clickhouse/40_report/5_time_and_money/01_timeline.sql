-- One row is one card: for cells of cell_ms from the window's start on, each that holds anything, (number, observed ms in the
-- states active, idle-held, truly-idle, unknown).
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
    GROUP BY
        host,
        gpu,
        cell
)
GROUP BY
    host,
    gpu
