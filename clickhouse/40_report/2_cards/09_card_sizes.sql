-- One row is one card with ticks in the window, and its memory by these: the least in total, the most that the driver keeps for
-- itself, whether it was a MIG instance or a partitioned GPU in any, and whether any told that the host uses it. whole_bytes is the
-- memory of the GPU that an instance is a part of: its instances and what is left over together, in the tick in which most of them
-- told; NULL of other cards, and where no tick told of what is left over. A card all of whose hours were counted before sizes were
-- kept, and have no ticks any more, has no row.
CREATE OR REPLACE VIEW gua_report.card_sizes $ON_CLUSTER
$DEFINER
AS
WITH
    -- The ticks of instances and their GPUs: of a host without any no tick is read twice.
    gpu_parts AS
    (
        SELECT
            host,
            gpu,
            ts,
            memory_limit_bytes,
            ifNull(mig, '') AS mig
        FROM gua.card_ticks FINAL
        WHERE ${TICK_HOUR} IN {tick_hours:Array(Int64)}
            AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND duration_ms > 0
            AND toUnixTimestamp64Milli(ts) - duration_ms < {until_ms:Int64}
            AND ${OF_HOSTS}
            AND gpu GLOBAL IN
            (
                SELECT arrayJoin([toString(gpu), assumeNotNull(parent)])
                FROM gua.card_info FINAL
                WHERE parent IS NOT NULL
            )
    ),
    gpu_of AS
    (
        SELECT
            host,
            gpu,
            gpu_index,
            ifNull(model, name) AS model,
            toString(ifNull(parent, gpu)) AS whole
        FROM gua.card_info FINAL
        WHERE ${OF_HOSTS}
    )
SELECT
    toString(sizes.host) AS host,
    toString(sizes.gpu) AS gpu,
    gpu_of.gpu_index AS gpu_index,
    gpu_of.model AS model,
    sizes.limit_bytes AS limit_bytes,
    sizes.reserved_bytes AS reserved_bytes,
    sizes.is_cut AS is_cut,
    sizes.is_instance AS is_instance,
    -- It stands in the row of the GPU.
    if(is_instance, max(sizes.whole_bytes) OVER (PARTITION BY sizes.host, gpu_of.whole), NULL) AS whole_bytes,
    sizes.is_shared AS is_shared
FROM
(
    SELECT
        host,
        gpu,
        min(least_bytes) AS limit_bytes,
        max(most_reserved_bytes) AS reserved_bytes,
        max(part_is_cut) AS is_cut,
        max(part_is_instance) AS is_instance,
        max(part_is_shared) AS is_shared,
        max(part_whole_bytes) AS whole_bytes
    FROM
    (
        SELECT
            host,
            hour_gpu AS gpu,
            min(hour_limit_bytes) AS least_bytes,
            max(hour_reserved_bytes) AS most_reserved_bytes,
            toUInt8(max(hour_is_cut)) AS part_is_cut,
            toUInt8(max(hour_is_instance)) AS part_is_instance,
            toUInt8(max(hour_is_shared)) AS part_is_shared,
            max(hour_whole_bytes) AS part_whole_bytes
        FROM
        (
            SELECT *
            FROM ${USED_ROWS}
                AND notEmpty(`sizes.gpu`)
        )
        ARRAY JOIN
            sizes.gpu AS hour_gpu,
            sizes.limit_bytes AS hour_limit_bytes,
            sizes.reserved_bytes AS hour_reserved_bytes,
            sizes.is_cut AS hour_is_cut,
            sizes.is_instance AS hour_is_instance,
            sizes.is_shared AS hour_is_shared,
            sizes.whole_bytes AS hour_whole_bytes
        GROUP BY
            host,
            gpu
        UNION ALL
        SELECT
            host,
            gpu,
            min(memory_limit_bytes) AS least_bytes,
            max(memory_reserved_bytes) AS most_reserved_bytes,
            toUInt8(max(ifNull(mig, '') = 'parent')) AS part_is_cut,
            toUInt8(max(ifNull(mig, '') = 'instance')) AS part_is_instance,
            toUInt8(max(ifNull(memory_shared, false))) AS part_is_shared,
            CAST(NULL, 'Nullable(UInt64)') AS part_whole_bytes
        FROM gua.card_ticks FINAL
        WHERE ${TICK_HOUR} IN {tick_hours:Array(Int64)}
            AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND duration_ms > 0
            AND toUnixTimestamp64Milli(ts) - duration_ms < {until_ms:Int64}
            AND ${OF_HOSTS}
        GROUP BY
            host,
            gpu
        UNION ALL
        -- The GPU has ticks, so this is no row more.
        SELECT
            host,
            whole AS gpu,
            CAST(NULL, 'Nullable(UInt64)') AS least_bytes,
            CAST(NULL, 'Nullable(UInt64)') AS most_reserved_bytes,
            toUInt8(0) AS part_is_cut,
            toUInt8(0) AS part_is_instance,
            toUInt8(0) AS part_is_shared,
            max(sum_bytes) AS part_whole_bytes
        FROM
        (
            ${WHOLE_GPUS}
        )
        GROUP BY
            host,
            whole
    )
    GROUP BY
        host,
        gpu
) AS sizes
LEFT JOIN gpu_of
    ON gpu_of.host = sizes.host AND gpu_of.gpu = sizes.gpu
