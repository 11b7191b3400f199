-- One row is one owner, program and Slurm job on one card: GPU time in the window, and memory and utilization by ticks. peak_bytes and
-- p95_bytes are the memory of all its processes on the card: the maximum, and the 95th percentile by time. peak_utilization and
-- p95_utilization are those of its busiest process, p95_sm_utilization that of the card. unknown_ms is time with unknown memory of a
-- process; peak and percentile of memory leave it out. Truly-idle cards and ignored processes are left out. priced is GPU time by price
-- number. Read from the ticks of {tick_hours}.
CREATE OR REPLACE VIEW gua_report.right_size $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
${WINDOW_SPANS}
SELECT
    toString(any(ticks.host)) AS host,
    toString(any(ticks.gpu)) AS gpu,
    any(ticks.owner) AS owner,
    any(ticks.program) AS program,
    any(ticks.slurm_job_id) AS job,
    sum(ticks.gpu_us) AS gpu_us,
    toUInt64(sum(ticks.covered_ms)) AS held_ms,
    toUInt64(sumIf(ticks.covered_ms, ticks.unknown)) AS unknown_ms,
    if(held_ms = unknown_ms, NULL, maxIf(ticks.bytes, NOT ticks.unknown)) AS peak_bytes,
    if(peak_bytes IS NULL, NULL, quantileExactWeightedIf(0.95)(ticks.bytes, ticks.covered_ms, NOT ticks.unknown)) AS p95_bytes,
    max(ticks.utilization) AS peak_utilization,
    if(
        peak_utilization IS NULL,
        NULL,
        quantileExactWeightedIf(0.95)(ifNull(ticks.utilization, 0), ticks.covered_ms, ticks.utilization IS NOT NULL)
    ) AS p95_utilization,
    if(
        count(ticks.sms) = 0,
        NULL,
        quantileExactWeightedIf(0.95)(ifNull(ticks.sms, 0), ticks.covered_ms, ticks.sms IS NOT NULL)
    ) AS p95_sm_utilization,
    CAST(
        arrayZip(
            tupleElement(sumMapIf([ticks.price], [ticks.gpu_us], ticks.price > 0), 1),
            tupleElement(sumMapIf([ticks.price], [ticks.gpu_us], ticks.price > 0), 2)
        ),
        'Array(Tuple(UInt32, UInt64))'
    ) AS priced
FROM
(
    SELECT
        process.host AS host,
        process.gpu AS gpu,
        process.owner AS owner,
        process.program AS program,
        process.slurm_job_id AS slurm_job_id,
        process.bytes AS bytes,
        process.unknown AS unknown,
        process.utilization AS utilization,
        toUInt32(card.inside_ms) AS covered_ms,
        if(
            card.part = 1,
            process.attributed_ms * 1000,
            toUInt64(round(process.attributed_ms * 1000 * card.part))
        ) AS gpu_us,
        card.sms AS sms,
        toUInt32(arrayLast(number -> number <= card.begun, priced.prices)) AS price
    FROM
    (
        SELECT
            host,
            gpu,
            owner,
            program,
            slurm_job_id,
            cityHash64(cityHash64(host), cityHash64(gpu), toUnixTimestamp64Milli(ts)) AS card_tick,
            sum(ifNull(memory_bytes, 0)) AS bytes,
            countIf(memory_bytes IS NULL) > 0 AS unknown,
            max(process_ticks.utilization) AS utilization,
            sum(toUInt64(assumeNotNull(gpu_time_ms))) AS attributed_ms
        FROM gua.process_ticks AS process_ticks FINAL
        WHERE ${IN_TICK_HOURS}
            AND gpu_time_ms IS NOT NULL
        GROUP BY
            host,
            gpu,
            owner,
            program,
            slurm_job_id,
            ts
    ) AS process
    INNER JOIN
    (
        SELECT
            cityHash64(cityHash64(host), cityHash64(gpu), end_ms) AS card_tick,
            inside_ms,
            inside_part AS part,
            sm_utilization AS sms,
            -- Number of prices that had begun; the last number up to it is valid.
            arrayCount(start_ms -> start_ms <= toInt64(toUnixTimestamp(hour)) * 1000, {price_starts:Array(Int64)}) AS begun
        FROM spans
        WHERE state_code != TRULY_IDLE
    ) AS card
        ON card.card_tick = process.card_tick
    LEFT JOIN ${PRICED_CARDS} AS priced
        ON priced.card_host = process.host AND priced.card_gpu = process.gpu
) AS ticks
GROUP BY
    ticks.host,
    ticks.gpu,
    ticks.owner,
    ticks.program,
    ticks.slurm_job_id
;
-- One row is one card with ticks in the window and its memory: the smallest total, the largest reserve of the driver, and its kind.
-- is_cut: it was a partitioned GPU. whole_bytes is the memory of the GPU of an instance: the largest sum of instances and unallocated
-- slices in a tick. It is NULL for other cards, and without memory of the unallocated slices.
CREATE OR REPLACE VIEW gua_report.card_sizes $ON_CLUSTER
$DEFINER
AS
SELECT
    toString(sizes.host) AS host,
    toString(sizes.gpu) AS gpu,
    cards.gpu_index AS gpu_index,
    cards.model AS model,
    sizes.limit_bytes AS limit_bytes,
    sizes.reserved_bytes AS reserved_bytes,
    sizes.is_cut AS is_cut,
    sizes.is_instance AS is_instance,
    -- The row of the GPU has it.
    if(is_instance, max(sizes.whole_bytes) OVER (PARTITION BY sizes.host, cards.whole), NULL) AS whole_bytes,
    sizes.is_shared AS is_shared
FROM
(
    SELECT
        host,
        gpu,
        min(hours.limit_bytes) AS limit_bytes,
        max(hours.reserved_bytes) AS reserved_bytes,
        toUInt8(max(hours.is_partitioned)) AS is_cut,
        toUInt8(max(hours.is_instance)) AS is_instance,
        toUInt8(max(hours.is_shared)) AS is_shared,
        max(hours.whole_bytes) AS whole_bytes
    FROM ${HOURS_OF_CARDS} AS hours
    GROUP BY ALL
) AS sizes
LEFT JOIN ${CARD_MODELS} AS cards
    ON cards.host = sizes.host AND cards.gpu = sizes.gpu
