-- One row is what one owner's program, or Slurm job of it, took of one card: its GPU time in the window, and by ticks the largest
-- memory of all its processes on that card together, the one that 95 % of the time did not exceed, and the same of its busiest
-- process; p95_sm_utilization is of the card, whoever was on it, where its counters tell. A tick in which the memory of any of
-- them is not known counts in unknown_ms alone. Truly-idle cards are held by nobody, and ignored processes hold nothing. priced
-- is GPU time by the number of its price. Read from ticks: hours are those asked for.
CREATE OR REPLACE VIEW gua_report.right_size $ON_CLUSTER
$DEFINER
AS
WITH
    processes AS
    (
        -- Who it was on which card stands as one number: a group for each of them and tick is more than names in each would let fit.
        SELECT
            *,
            cityHash64(cityHash64(host), cityHash64(gpu), toUnixTimestamp64Milli(ts)) AS card_tick,
            cityHash64(
                cityHash64(host),
                cityHash64(gpu),
                owner IS NULL,
                sipHash64(ifNull(owner, '')),
                program IS NULL,
                sipHash64(ifNull(program, '')),
                slurm_job_id IS NULL,
                sipHash64(ifNull(slurm_job_id, ''))
            ) AS who
        FROM gua.process_ticks FINAL
        WHERE ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND ${OF_HOSTS}
    )
SELECT
    toString(any(names.host)) AS host,
    toString(any(names.gpu)) AS gpu,
    any(names.owner) AS owner,
    any(names.program) AS program,
    any(names.slurm_job_id) AS job,
    sum(taken.gpu_us) AS gpu_us,
    sum(taken.held_ms) AS held_ms,
    sum(taken.unknown_ms) AS unknown_ms,
    max(taken.peak_bytes) AS peak_bytes,
    if(peak_bytes IS NULL, NULL, quantileExactWeightedIfMerge(0.95)(taken.bytes)) AS p95_bytes,
    max(taken.peak_utilization) AS peak_utilization,
    if(peak_utilization IS NULL, NULL, quantileExactWeightedIfMerge(0.95)(taken.utilizations)) AS p95_utilization,
    if(NOT max(taken.tells_sms), NULL, quantileExactWeightedIfMerge(0.95)(taken.sm_utilizations)) AS p95_sm_utilization,
    CAST(
        arrayMap(
            (price, us) -> (price, us),
            tupleElement(sumMapIf([arrayLast(number -> number <= taken.begun, priced.prices) AS price], [taken.gpu_us], price > 0), 1),
            tupleElement(sumMapIf([price], [taken.gpu_us], price > 0), 2)
        ),
        'Array(Tuple(UInt32, UInt64))'
    ) AS priced
FROM
(
    SELECT
        who,
        -- So many of the prices given had begun: each number up to it.
        begun,
        sum(part_us) AS gpu_us,
        sum(covered_ms) AS held_ms,
        sumIf(covered_ms, NOT is_known) AS unknown_ms,
        maxIfOrNull(memory_bytes, is_known) AS peak_bytes,
        quantileExactWeightedIfState(0.95)(memory_bytes, covered_ms, is_known) AS bytes,
        max(utilization) AS peak_utilization,
        quantileExactWeightedIfState(0.95)(ifNull(utilization, 0), covered_ms, utilization IS NOT NULL) AS utilizations,
        max(sm_utilization IS NOT NULL) AS tells_sms,
        quantileExactWeightedIfState(0.95)(ifNull(sm_utilization, 0), covered_ms, sm_utilization IS NOT NULL) AS sm_utilizations
    FROM
    (
        SELECT
            bitXor(process.who_and_tick, process.card_tick) AS who,
            card.begun AS begun,
            process.known AS is_known,
            process.memory AS memory_bytes,
            process.busiest AS utilization,
            if(
                card.part = 1,
                process.attributed_ms * 1000,
                toUInt64(round(process.attributed_ms * 1000 * card.part))
            ) AS part_us,
            card.covered_ms AS covered_ms,
            card.sm_utilization AS sm_utilization
        FROM
        (
            -- One number as key takes half the time and memory of two, and with one of its parts it tells the other.
            SELECT
                bitXor(who, processes.card_tick) AS who_and_tick,
                -- Of equal numbers that number, kept in half the bytes of any.
                groupBitOr(processes.card_tick) AS card_tick,
                sum(toUInt64(assumeNotNull(gpu_time_ms))) AS attributed_ms,
                NOT max(memory_bytes IS NULL) AS known,
                sum(ifNull(memory_bytes, 0)) AS memory,
                max(processes.utilization) AS busiest
            FROM processes
            WHERE ${TICK_HOUR} IN {hours:Array(Int64)}
                AND gpu_time_ms IS NOT NULL
            GROUP BY who_and_tick
            -- Of a month of eight cards with many processes still more than one question may hold in memory.
            SETTINGS max_bytes_before_external_group_by = 90000000
        ) AS process
        INNER JOIN
        (
            SELECT
                cityHash64(cityHash64(host), cityHash64(gpu), end_ms) AS card_tick,
                if(
                    empty({price_starts:Array(Int64)}),
                    toUInt32(0),
                    arrayCount(start_ms -> start_ms <= intDiv(end_ms - 1, 3600000) * 3600000, {price_starts:Array(Int64)})
                ) AS begun,
                inside_part AS part,
                toUInt32(inside_ms) AS covered_ms,
                sm_utilization
            FROM gua_report.spans(
                since_ms = {since_ms:Int64},
                until_ms = {until_ms:Int64},
                hosts = {hosts:Array(String)},
                tick_hours = {hours:Array(Int64)}
            ) AS spans
            WHERE state != 'truly-idle'
        ) AS card
            ON card.card_tick = process.card_tick
    ) AS used
    GROUP BY
        who,
        begun
) AS taken
INNER JOIN
(
    SELECT
        who,
        host,
        gpu,
        owner,
        program,
        slurm_job_id
    FROM processes
    LIMIT 1 BY who
) AS names
    ON names.who = taken.who
LEFT JOIN
(
    SELECT
        host,
        gpu,
        ${CARD_PRICES} AS prices
    FROM gua.card_info AS cards FINAL
    WHERE notEmpty({price_models:Array(String)})
        AND ${OF_HOSTS}
) AS priced
    ON priced.host = names.host
    AND priced.gpu = names.gpu
GROUP BY taken.who
-- Threads would make groups of the same ticks each, and put them together; of many hosts as many questions are asked at once.
SETTINGS max_threads = 1
