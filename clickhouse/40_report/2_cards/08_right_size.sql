-- One row is what one owner's program, or Slurm job of it, took of one card: its GPU time in the window, and by ticks the largest
-- memory of all its processes on that card together, the one that 95 % of the time did not exceed, and the same of its busiest
-- process; p95_sm_utilization is of the card, whoever was on it, where its counters tell. A tick in which the memory of any of
-- them is not known counts in unknown_ms alone. Truly-idle cards are held by nobody, and ignored processes hold nothing. priced
-- is GPU time by the number of its price. Read from ticks: hours are those asked for.
-- A process's ticks of an hour are arrays in the order of the card's, added up place by place: a group and a join of each tick
-- take half as long again. Utilization and activity stand as one more than they are, 0 for what is not told, memory as well
-- until it is added up. Of a tick there are as many as its processes, and MANY more for each whose memory is not known.
CREATE OR REPLACE VIEW gua_report.right_size $ON_CLUSTER
$DEFINER
AS
WITH
    4294967296 AS MANY,
    131072 AS MOST_UTILIZATION,
    1024 AS MOST_TOLD
SELECT
    toString(any(taken.host)) AS host,
    toString(any(taken.gpu)) AS gpu,
    any(taken.owner) AS owner,
    any(taken.program) AS program,
    any(taken.slurm_job_id) AS job,
    sum(taken.gpu_us) AS gpu_us,
    sum(taken.held_ms) AS held_ms,
    sum(taken.unknown_ms) AS unknown_ms,
    if(sum(taken.known_ms) = 0, NULL, max(taken.peak)) AS peak_bytes,
    if(peak_bytes IS NULL, NULL, quantileExactWeightedArrayMerge(0.95)(taken.bytes)) AS p95_bytes,
    if(max(taken.busiest) = 0, NULL, max(taken.busiest) - 1) AS peak_utilization,
    if(peak_utilization IS NULL, NULL, quantileExactWeightedArrayMerge(0.95)(taken.utilizations) - 1) AS p95_utilization,
    if(max(taken.most_sms) = 0, NULL, quantileExactWeightedArrayMerge(0.95)(taken.sms) - 1) AS p95_sm_utilization,
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
        begun,
        any(used.host) AS host,
        any(used.gpu) AS gpu,
        any(used.owner) AS owner,
        any(used.program) AS program,
        any(used.slurm_job_id) AS slurm_job_id,
        sum(used.gpu_us) AS gpu_us,
        sum(arraySum(used.held_each)) AS held_ms,
        sum(arraySum(used.known_each)) AS known_ms,
        held_ms - known_ms AS unknown_ms,
        max(arrayMax((bytes, ms) -> if(ms > 0, bytes, 0), used.memories, used.known_each)) AS peak,
        quantileExactWeightedArrayState(0.95)(used.memories, used.known_each) AS bytes,
        max(arrayMax((more, ms) -> if(ms > 0, more, 0), used.utilizations, used.held_each)) AS busiest,
        quantileExactWeightedArrayState(0.95)(used.utilizations, used.told_each) AS utilizations,
        max(arrayMax(used.sms_each)) AS most_sms,
        quantileExactWeightedArrayState(0.95)(used.sms_each, used.sms_told_each) AS sms
    FROM
    (
        -- What does not count has no weight.
        SELECT
            who,
            begun,
            host,
            gpu,
            owner,
            program,
            slurm_job_id,
            memories,
            utilizations,
            arrayMap((one, times) -> if(times > 0 AND one % 2, intDiv(one, MOST_TOLD), 0), told, there) AS held_each,
            arrayMap((ms, times) -> if(times < MANY, ms, 0), held_each, there) AS known_each,
            arrayMap((ms, more) -> if(more > 0, ms, 0), held_each, utilizations) AS told_each,
            arrayMap((one, ms) -> if(ms > 0, intDiv(one % MOST_TOLD, 2), 0), told, held_each) AS sms_each,
            arrayMap((ms, more) -> if(more > 0, ms, 0), held_each, sms_each) AS sms_told_each,
            if(
                empty(parts),
                arraySum((gpu_ms, ms) -> if(ms > 0, gpu_ms * 1000, 0), attributed, held_each),
                arraySum(
                    (gpu_ms, ms, part) -> multiIf(ms = 0, 0, part = 1, gpu_ms * 1000, toUInt64(round(gpu_ms * 1000 * part))),
                    attributed,
                    held_each,
                    arrayResize(parts, length(attributed))
                )
            ) AS gpu_us
        FROM
        (
            SELECT
                placed.who AS who,
                any(placed.begun) AS begun,
                any(placed.host) AS host,
                any(placed.gpu) AS gpu,
                any(placed.owner) AS owner,
                any(placed.program) AS program,
                any(placed.slurm_job_id) AS slurm_job_id,
                sumForEach(arrayMap(more -> more - (more > 0), placed.memories)) AS memories,
                sumForEach(arrayMap(
                    (is_there, more) -> if(is_there, if(more > 0, 1, MANY + 1), 0),
                    placed.there,
                    placed.memories
                )) AS there,
                maxForEach(arrayMap(use -> toUInt32(use % MOST_UTILIZATION), placed.uses)) AS utilizations,
                sumForEach(arrayMap(use -> intDiv(use, MOST_UTILIZATION), placed.uses)) AS attributed,
                -- Of one card and hour all of them are told the same.
                maxForEach(placed.told) AS told,
                maxForEach(placed.parts) AS parts
            FROM
            (
                SELECT
                    process.card_hour AS card_hour,
                    card.host AS host,
                    card.gpu AS gpu,
                    process.owner AS owner,
                    process.program AS program,
                    process.slurm_job_id AS slurm_job_id,
                    cityHash64(
                        cityHash64(host),
                        cityHash64(gpu),
                        owner IS NULL,
                        sipHash64(ifNull(owner, '')),
                        program IS NULL,
                        sipHash64(ifNull(program, '')),
                        slurm_job_id IS NULL,
                        sipHash64(ifNull(slurm_job_id, ''))
                    ) AS who,
                    card.begun AS begun,
                    indexOf(card.times, process.times[1]) AS first,
                    -- Ticks in a row, as nearly always. Else both are sorted by time, the process's tick right before the card's of
                    -- the same time, and each of the card's has what stands before it. One without the card's is left out.
                    first > 0 AND arraySlice(card.times, first, length(process.times)) = process.times AS is_in_row,
                    if(
                        is_in_row,
                        [],
                        arrayConcat(arrayMap(ms -> ms * 2 + 1, card.times), arrayMap(ms -> ms * 2, process.times))
                    ) AS keys,
                    arraySort(keys) AS sorted,
                    arrayMap((key, key_before) -> key_before + 1 = key, sorted, arrayShiftRight(sorted, 1)) AS are_there,
                    if(is_in_row, [], arrayWithConstant(length(card.times), toUInt64(0))) AS of_card,
                    arraySort((more, key) -> key, arrayConcat(of_card, if(is_in_row, [], process.memories)), keys) AS sorted_memories,
                    arraySort((use, key) -> key, arrayConcat(of_card, if(is_in_row, [], process.uses)), keys) AS sorted_uses,
                    arrayWithConstant(if(is_in_row, first - 1, 0), 0) AS before,
                    if(
                        is_in_row,
                        arrayConcat(before, process.memories),
                        arrayFilter(
                            (more, key) -> key % 2,
                            arrayMap((more, is_there) -> if(is_there, more, 0), arrayShiftRight(sorted_memories, 1), are_there),
                            sorted
                        )
                    ) AS memories,
                    if(
                        is_in_row,
                        arrayConcat(before, process.uses),
                        arrayFilter(
                            (use, key) -> key % 2,
                            arrayMap((use, is_there) -> if(is_there, use, 0), arrayShiftRight(sorted_uses, 1), are_there),
                            sorted
                        )
                    ) AS uses,
                    if(
                        is_in_row,
                        arrayConcat(before, arrayWithConstant(length(process.times), 1)),
                        arrayFilter((is_there, key) -> key % 2, are_there, sorted)
                    ) AS there,
                    arrayResize(card.told, length(memories)) AS told,
                    card.parts AS parts
                FROM
                (
                    SELECT
                        ticks.card_hour AS card_hour,
                        any(ticks.owner) AS owner,
                        any(ticks.program) AS program,
                        any(ticks.slurm_job_id) AS slurm_job_id,
                        groupArray(ticks.time_ms) AS times,
                        groupArray(ifNull(ticks.memory_bytes + 1, 0)) AS memories,
                        -- GPU time, and in the lowest 17 bits utilization.
                        groupArray(
                            toUInt64(assumeNotNull(ticks.gpu_time_ms)) * MOST_UTILIZATION
                            + ifNull(toUInt32(ticks.utilization) + 1, 0)
                        ) AS uses
                    FROM
                    (
                        SELECT
                            *,
                            ${TICK_HOUR} AS hour,
                            cityHash64(cityHash64(host), cityHash64(gpu), hour) AS card_hour,
                            toUInt32(toUnixTimestamp64Milli(ts) - hour * 3600000) AS time_ms
                        FROM gua.process_ticks FINAL
                        WHERE ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
                            AND ${OF_HOSTS}
                            AND gpu_time_ms IS NOT NULL
                        SETTINGS max_block_size = 65409
                    ) AS ticks
                    GROUP BY
                        ticks.card_hour,
                        cityHash64(
                            pid,
                            created,
                            sipHash64(ifNull(concat('=', ticks.owner), '')),
                            sipHash64(ifNull(concat('=', ticks.program), '')),
                            sipHash64(ifNull(concat('=', ticks.slurm_job_id), ''))
                        )
                    -- Of a month of eight cards with many processes still more than one question may hold in memory.
                    SETTINGS max_bytes_before_external_group_by = 110000000
                ) AS process
                INNER JOIN
                (
                    SELECT
                        cityHash64(cityHash64(spans.host), cityHash64(spans.gpu), intDiv(end_ms - 1, 3600000)) AS card_hour,
                        any(spans.host) AS host,
                        any(spans.gpu) AS gpu,
                        -- So many of the prices given had begun: each number up to it.
                        any(if(
                            empty({price_starts:Array(Int64)}),
                            toUInt32(0),
                            arrayCount(start_ms -> start_ms <= intDiv(end_ms - 1, 3600000) * 3600000, {price_starts:Array(Int64)})
                        )) AS begun,
                        groupArray(toUInt32((end_ms - 1) % 3600000 + 1)) AS unsorted_ms,
                        arraySort(unsorted_ms) AS times,
                        -- The time of a tick; in the lowest 10 bits activity of SMs and, lowest, whether the card was held.
                        groupArray(
                            toUInt64(inside_ms) * MOST_TOLD + ifNull(toUInt64(sm_utilization) + 1, 0) * 2 + (state != 'truly-idle')
                        ) AS unsorted_told,
                        if(times = unsorted_ms, unsorted_told, arraySort((one, ms) -> ms, unsorted_told, unsorted_ms)) AS told,
                        -- Only of ticks at the edges of the window a part lies inside.
                        if(min(inside_part) = 1, [], arraySort((part, ms) -> ms, groupArray(inside_part), unsorted_ms)) AS parts
                    FROM gua_report.spans(
                        since_ms = {since_ms:Int64},
                        until_ms = {until_ms:Int64},
                        hosts = {hosts:Array(String)},
                        tick_hours = {hours:Array(Int64)}
                    ) AS spans
                    GROUP BY cityHash64(cityHash64(spans.host), cityHash64(spans.gpu), intDiv(end_ms - 1, 3600000))
                ) AS card
                    ON card.card_hour = process.card_hour
            ) AS placed
            GROUP BY
                placed.who,
                placed.card_hour
        ) AS grouped
    ) AS used
    GROUP BY
        who,
        begun
) AS taken
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
    ON priced.host = taken.host
    AND priced.gpu = taken.gpu
GROUP BY taken.who
HAVING sum(taken.held_ms) > 0
-- Threads would make groups of the same ticks each, and put them together; of many hosts as many questions are asked at once.
-- Few rows at a time, as each is an hour of ticks.
SETTINGS max_threads = 1, max_block_size = 256
