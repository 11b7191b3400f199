-- One row is one card with ticks in the window and the hours asked for, and its memory by these: the least in total, the most that
-- the driver keeps for itself, whether it was a MIG instance or a partitioned GPU in any, and whether any told that the host uses it.
-- whole_bytes is the memory of the GPU that an instance is a part of: its instances and what is left over together, in the tick in
-- which most of them told; NULL of other cards, and where no tick told of what is left over.
CREATE OR REPLACE VIEW gua_report.card_sizes $ON_CLUSTER
$DEFINER
AS
WITH
    -- The ticks of instances and their GPUs: of a host without any no tick is read twice.
    parts AS
    (
        SELECT
            host,
            gpu,
            ts,
            memory_limit_bytes,
            ifNull(mig, '') AS mig
        FROM gua.card_ticks FINAL
        WHERE ${TICK_HOUR} IN {hours:Array(Int64)}
            AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND toUnixTimestamp64Milli(ts) - duration_ms < {until_ms:Int64}
            AND ${OF_HOSTS}
            AND gpu GLOBAL IN
            (
                SELECT arrayJoin([toString(gpu), assumeNotNull(parent)])
                FROM gua.card_info FINAL
                WHERE parent IS NOT NULL
            )
    ),
    ticks AS
    (
        SELECT
            host,
            gpu,
            ts,
            memory_limit_bytes,
            memory_reserved_bytes,
            ifNull(mig, '') AS mig,
            ifNull(memory_shared, false) AS is_shared
        FROM gua.card_ticks FINAL
        WHERE ${TICK_HOUR} IN {hours:Array(Int64)}
            AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND toUnixTimestamp64Milli(ts) - duration_ms < {until_ms:Int64}
            AND ${OF_HOSTS}
    ),
    cards AS
    (
        SELECT
            host,
            gpu,
            gpu_index,
            name,
            model,
            toString(ifNull(parent, gpu)) AS whole
        FROM gua.card_info FINAL
        WHERE ${OF_HOSTS}
    )
SELECT
    toString(sizes.host) AS host,
    toString(sizes.gpu) AS gpu,
    cards.gpu_index AS gpu_index,
    ifNull(cards.model, cards.name) AS model,
    sizes.limit_bytes AS limit_bytes,
    sizes.reserved_bytes AS reserved_bytes,
    sizes.is_cut AS is_cut,
    sizes.is_instance AS is_instance,
    if(is_instance, wholes.bytes, NULL) AS whole_bytes,
    sizes.is_shared AS is_shared
FROM
(
    SELECT
        host,
        gpu,
        min(memory_limit_bytes) AS limit_bytes,
        max(memory_reserved_bytes) AS reserved_bytes,
        toUInt8(max(mig = 'parent')) AS is_cut,
        toUInt8(max(mig = 'instance')) AS is_instance,
        toUInt8(max(ticks.is_shared)) AS is_shared
    FROM ticks
    GROUP BY
        host,
        gpu
) AS sizes
LEFT JOIN cards
    ON cards.host = sizes.host AND cards.gpu = sizes.gpu
LEFT JOIN
(
    SELECT
        host,
        whole,
        max(sum_bytes) AS bytes
    FROM
    (
        SELECT
            parts.host AS host,
            cards.whole AS whole,
            sum(parts.memory_limit_bytes) AS sum_bytes
        FROM parts
        INNER JOIN cards
            ON cards.host = parts.host AND cards.gpu = parts.gpu
        WHERE parts.mig IN ('instance', 'parent')
        GROUP BY
            host,
            whole,
            parts.ts
        HAVING maxIf(parts.memory_limit_bytes, parts.mig = 'parent') IS NOT NULL
    )
    GROUP BY
        host,
        whole
) AS wholes
    ON wholes.host = sizes.host AND wholes.whole = cards.whole
