-- One row is one card with ticks in the window and the hours asked for, and its memory by these: the least in total, the most that
-- the driver keeps for itself, whether it was a MIG instance or a partitioned GPU in any, and whether any told that the host uses it.
CREATE OR REPLACE VIEW gua_report.card_sizes $ON_CLUSTER
$DEFINER
AS
SELECT
    toString(sizes.host) AS host,
    toString(sizes.gpu) AS gpu,
    cards.gpu_index AS gpu_index,
    ifNull(cards.model, cards.name) AS model,
    sizes.limit_bytes AS limit_bytes,
    sizes.reserved_bytes AS reserved_bytes,
    sizes.is_cut AS is_cut,
    sizes.is_shared AS is_shared
FROM
(
    SELECT
        host,
        gpu,
        min(memory_limit_bytes) AS limit_bytes,
        max(memory_reserved_bytes) AS reserved_bytes,
        toUInt8(max(ifNull(mig, '') IN ('instance', 'parent'))) AS is_cut,
        toUInt8(max(ifNull(memory_shared, false))) AS is_shared
    FROM gua.card_ticks FINAL
    WHERE ${TICK_HOUR} IN {hours:Array(Int64)}
        AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
        AND toUnixTimestamp64Milli(ts) - duration_ms < {until_ms:Int64}
        AND ${OF_HOSTS}
    GROUP BY
        host,
        gpu
) AS sizes
LEFT JOIN
(
    SELECT
        host,
        gpu,
        gpu_index,
        name,
        model
    FROM gua.card_info FINAL
    WHERE ${OF_HOSTS}
) AS cards
    ON cards.host = sizes.host AND cards.gpu = sizes.gpu
