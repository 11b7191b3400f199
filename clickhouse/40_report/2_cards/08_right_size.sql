-- One row is what one owner's program, or Slurm job of it, took of one card: its GPU time in the window, and by ticks the largest
-- memory of all its processes on that card together, the one that 95 % of the time did not exceed, and the same of its busiest
-- process; p95_sm_utilization is of the card, whoever was on it, where its counters tell. A tick in which the memory of any of
-- them is not known counts in unknown_ms alone. Truly-idle cards are held by nobody, and ignored processes hold nothing. priced
-- is GPU time by the number of its price. Read from ticks: hours are those asked for. Which ticks were truly idle is told by the
-- runs of counted hours, of tick_hours by the ticks.
-- A process's ticks of an hour are arrays in the order of the card's, added up place by place: a group and a join of each tick
-- take two thirds longer. Utilization and activity stand as one more than they are, 0 for what is not told.
CREATE OR REPLACE VIEW gua_report.right_size $ON_CLUSTER
$DEFINER
AS
WITH
    -- ONLY with counted hours
    (
        -- Hours in which ticks of a card overlap, so that runs do not tell them apart by their ends: these are judged as well.
        SELECT groupArray(toInt64(intDiv(toUnixTimestamp(hour), 3600)))
        FROM
        (
            SELECT
                hour,
                arraySort(arrayZip(
                    `card_runs.gpu`,
                    arrayMap((start_ms, span_ms) -> start_ms + span_ms, `card_runs.start_ms`, `card_runs.first_span_ms`),
                    `card_runs.end_ms`
                )) AS ends,
                arrayExists(
                    (run_ms, start_ms, end_ms) -> toInt64(run_ms) > end_ms - start_ms,
                    `card_runs.duration_ms`,
                    `card_runs.start_ms`,
                    `card_runs.end_ms`
                ) AS overlap_in_run
            FROM gua.host_hours FINAL
            WHERE ${USED_HOURS}
        )
        WHERE overlap_in_run
            OR arrayExists((run, after) -> run.1 = after.1 AND run.3 >= after.2, arrayPopBack(ends), arrayPopFront(ends))
    ) AS overlapping
    -- OTHERWISE emptyArrayInt64() AS overlapping
    -- END
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
        -- So many of the prices given had begun: each number up to it.
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
        max(arrayMax(arrayMap((bytes, ms) -> bytes * (ms > 0), used.memories, used.known_each))) AS peak,
        quantileExactWeightedArrayState(0.95)(used.memories, used.known_each) AS bytes,
        max(arrayMax(arrayMap((more, ms) -> more * (ms > 0), used.utilizations, used.held_each))) AS busiest,
        quantileExactWeightedArrayState(0.95)(
            used.utilizations,
            arrayMap((more, ms) -> ms * (more > 0), used.utilizations, used.held_each)
        ) AS utilizations,
        max(arrayMax(arrayMap((more, ms) -> more * (ms > 0), used.sms, used.held_with_sms))) AS most_sms,
        quantileExactWeightedArrayState(0.95)(
            used.sms,
            arrayMap((more, ms) -> ms * (more > 0), used.sms, used.held_with_sms)
        ) AS sms
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
            sms,
            arrayMap((ms, is_there) -> ms * is_there, covered, there) AS held_each,
            arrayResize(held_each, length(sms)) AS held_with_sms,
            if(
                empty(unknown),
                held_each,
                arrayMap((ms, is_unknown) -> ms * (is_unknown = 0), held_each, arrayResize(unknown, length(there)))
            ) AS known_each,
            whole_us + if(
                empty(attributed),
                0,
                arraySum(
                    (gpu_ms, ms, part) -> multiIf(ms = 0, 0, part = 1, gpu_ms * 1000, toUInt64(round(gpu_ms * 1000 * part))),
                    attributed,
                    arrayResize(covered, length(attributed)),
                    if(empty(parts), arrayWithConstant(length(attributed), toFloat64(1)), arrayResize(parts, length(attributed)))
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
                sum(placed.whole_us) AS whole_us,
                sumForEach(placed.attributed) AS attributed,
                sumForEach(placed.memories) AS memories,
                maxForEach(placed.utilizations) AS utilizations,
                maxForEach(placed.there) AS there,
                maxForEach(placed.unknown) AS unknown,
                any(placed.parts) AS parts,
                arrayResize(any(placed.covered), length(there)) AS covered,
                arrayResize(any(placed.sms), least(length(any(placed.sms)), length(there))) AS sms
            FROM
            (
                SELECT
                    process.card_hour AS card_hour,
                    process.who AS who,
                    card.host AS host,
                    card.gpu AS gpu,
                    process.owner AS owner,
                    process.program AS program,
                    process.slurm_job_id AS slurm_job_id,
                    card.begun AS begun,
                    card.sms AS sms,
                    card.parts AS parts,
                    if(
                        empty(idle.firsts_ms),
                        card.covered,
                        arrayMap(
                            (at_ms, ms) -> if(
                                arrayExists((first_ms, last_ms) -> at_ms >= first_ms AND at_ms <= last_ms, idle.firsts_ms, idle.lasts_ms),
                                0,
                                ms
                            ),
                            card.times,
                            card.covered
                        )
                    ) AS covered,
                    indexOf(card.times, process.times[1]) AS first,
                    length(process.times) AS ticks,
                    -- Ticks in a row, as nearly always. Else both are sorted by time, the process's tick right before the card's of
                    -- the same time, and each of the card's has what stands before it. One without the card's is left out.
                    first > 0 AND arraySlice(card.times, first, ticks) = process.times AS is_in_row,
                    arrayWithConstant(if(is_in_row, first - 1, 0), toUInt8(0)) AS before,
                    if(
                        is_in_row,
                        [],
                        arrayConcat(arrayMap(ms -> ms * 2 + 1, card.times), arrayMap(ms -> ms * 2, process.times))
                    ) AS keys,
                    arraySort(keys) AS sorted,
                    arrayMap((key, key_before) -> key_before + 1 = key, sorted, arrayShiftRight(sorted, 1)) AS are_there,
                    if(is_in_row, [], arrayWithConstant(length(card.times), toUInt64(0))) AS of_card,
                    if(
                        is_in_row,
                        arrayConcat(before, process.memories),
                        arrayFilter(
                            (bytes, key) -> key % 2,
                            arrayMap(
                                (bytes, is_there) -> bytes * is_there,
                                arrayShiftRight(arraySort((bytes, key) -> key, arrayConcat(of_card, process.memories), keys), 1),
                                are_there
                            ),
                            sorted
                        )
                    ) AS memories,
                    if(
                        is_in_row,
                        arrayConcat(before, process.uses),
                        arrayFilter(
                            (use, key) -> key % 2,
                            arrayMap(
                                (use, is_there) -> use * is_there,
                                arrayShiftRight(arraySort((use, key) -> key, arrayConcat(of_card, process.uses), keys), 1),
                                are_there
                            ),
                            sorted
                        )
                    ) AS uses,
                    if(
                        is_in_row,
                        arrayConcat(before, arrayWithConstant(ticks, toUInt8(1))),
                        arrayFilter((is_there, key) -> key % 2, are_there, sorted)
                    ) AS there,
                    arrayMap(use -> toUInt32(bitAnd(use, 131071)), uses) AS utilizations,
                    if(process.unknown_ticks = 0, [], arrayMap(use -> toUInt8(bitTest(use, 17)), uses)) AS unknown,
                    is_in_row AND empty(card.parts) AND NOT has(arraySlice(covered, first, ticks), 0) AS is_whole,
                    if(is_whole, process.attributed_ms * 1000, 0) AS whole_us,
                    -- GPU time of each tick, where not all of it counts.
                    if(is_whole, [], arrayMap(use -> bitShiftRight(use, 18), uses)) AS attributed
                FROM
                (
                    SELECT
                        ticks.card_hour AS card_hour,
                        any(ticks.who) AS who,
                        any(ticks.owner) AS owner,
                        any(ticks.program) AS program,
                        any(ticks.slurm_job_id) AS slurm_job_id,
                        groupArray(ticks.time_ms) AS times,
                        groupArray(ifNull(ticks.memory_bytes, 0)) AS memories,
                        countIf(ticks.memory_bytes IS NULL) AS unknown_ticks,
                        sum(assumeNotNull(ticks.gpu_time_ms)) AS attributed_ms,
                        -- GPU time; a bit, whether memory is not known; utilization in the lowest 17.
                        groupArray(
                            toUInt64(assumeNotNull(ticks.gpu_time_ms)) * 262144
                            + if(ticks.memory_bytes IS NULL, 131072, 0)
                            + ifNull(toUInt32(ticks.utilization) + 1, 0)
                        ) AS uses
                    FROM
                    (
                        SELECT
                            *,
                            ${TICK_HOUR} AS hour,
                            cityHash64(cityHash64(host), cityHash64(gpu), hour) AS card_hour,
                            cityHash64(
                                cityHash64(host),
                                cityHash64(gpu),
                                sipHash64(ifNull(concat('=', owner), '')),
                                sipHash64(ifNull(concat('=', program), '')),
                                sipHash64(ifNull(concat('=', slurm_job_id), ''))
                            ) AS who,
                            toUInt32(toUnixTimestamp64Milli(ts) - hour * 3600000) AS time_ms
                        FROM gua.process_ticks FINAL
                        WHERE ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
                            AND hour <= arrayMax({hours:Array(Int64)})
                            AND ${OF_HOSTS}
                            AND gpu_time_ms IS NOT NULL
                    ) AS ticks
                    GROUP BY
                        ticks.card_hour,
                        cityHash64(ticks.who, pid, created)
                    -- Of a month of eight cards with many processes still more than one question may hold in memory.
                    SETTINGS max_bytes_before_external_group_by = 110000000
                ) AS process
                ANY LEFT JOIN
                (
                    SELECT
                        ticks.card_hour AS card_hour,
                        any(ticks.host) AS host,
                        any(ticks.gpu) AS gpu,
                        any(if(
                            empty({price_starts:Array(Int64)}),
                            toUInt32(0),
                            arrayCount(start_ms -> start_ms <= ticks.hour * 3600000, {price_starts:Array(Int64)})
                        )) AS begun,
                        groupArray(toUInt32(ticks.end_ms - ticks.hour * 3600000)) AS unsorted_ms,
                        arraySort(unsorted_ms) AS times,
                        groupArray(toUInt32(ticks.inside_ms)) AS unsorted_covered,
                        if(
                            times = unsorted_ms,
                            unsorted_covered,
                            arraySort((ms, at_ms) -> at_ms, unsorted_covered, unsorted_ms)
                        ) AS covered,
                        groupArray(toUInt16(ifNull(toUInt16(ticks.sm_utilization) + 1, 0))) AS unsorted_sms,
                        multiIf(
                            arrayMax(unsorted_sms) = 0,
                            [],
                            times = unsorted_ms,
                            unsorted_sms,
                            arraySort((more, at_ms) -> at_ms, unsorted_sms, unsorted_ms)
                        ) AS sms,
                        -- Only of ticks at the edges of the window a part lies inside.
                        if(
                            min(ticks.inside_part) = 1,
                            [],
                            arraySort((part, at_ms) -> at_ms, groupArray(ticks.inside_part), unsorted_ms)
                        ) AS parts
                    FROM
                    (
                        SELECT
                            host,
                            gpu,
                            ${TICK_HOUR} AS hour,
                            cityHash64(cityHash64(host), cityHash64(gpu), hour) AS card_hour,
                            toUnixTimestamp64Milli(ts) AS end_ms,
                            assumeNotNull(card_ticks.duration_ms) AS span_ms,
                            least(end_ms, {until_ms:Int64}) - greatest(end_ms - span_ms, {since_ms:Int64}) AS inside_ms,
                            inside_ms / span_ms AS inside_part,
                            sm_utilization
                        FROM gua.card_ticks FINAL
                        WHERE ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
                            AND hour IN {hours:Array(Int64)}
                            AND ${OF_HOSTS}
                            AND card_ticks.duration_ms IS NOT NULL
                            AND inside_ms > 0
                    ) AS ticks
                    GROUP BY ticks.card_hour
                ) AS card
                    ON card.card_hour = process.card_hour
                ANY LEFT JOIN
                (
                    SELECT
                        idle_ticks.card_hour AS card_hour,
                        groupArray(idle_ticks.first_ms) AS firsts_ms,
                        groupArray(idle_ticks.last_ms) AS lasts_ms
                    FROM
                    (
                        -- ONLY with counted hours
                        SELECT
                            cityHash64(cityHash64(host), cityHash64(run.gpu), intDiv(toUnixTimestamp(hour), 3600)) AS card_hour,
                            toUInt32(run.start_ms + run.first_span_ms - toUnixTimestamp(hour) * 1000) AS first_ms,
                            toUInt32(run.end_ms - toUnixTimestamp(hour) * 1000) AS last_ms
                        FROM gua.host_hours FINAL
                        ARRAY JOIN card_runs AS run
                        WHERE ${USED_HOURS}
                            AND NOT has(overlapping, intDiv(toUnixTimestamp(hour), 3600))
                            -- Truly idle, whole or partitioned.
                            AND run.state % 8 = 3
                        UNION ALL
                        -- END
                        SELECT
                            cityHash64(cityHash64(host), cityHash64(gpu), ${TICK_HOUR}) AS card_hour,
                            toUInt32(toUnixTimestamp64Milli(ts) - ${TICK_HOUR} * 3600000) AS first_ms,
                            first_ms AS last_ms
                        FROM gua.card_states
                        WHERE ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
                            AND ${TICK_HOUR} IN arrayConcat({tick_hours:Array(Int64)}, overlapping)
                            AND ${OF_HOSTS}
                            AND state = 'truly-idle'
                    ) AS idle_ticks
                    GROUP BY idle_ticks.card_hour
                ) AS idle
                    ON idle.card_hour = process.card_hour
                WHERE notEmpty(card.times)
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
-- Few rows at a time, as each is an hour of ticks; processes are asked for what the cards tell, not the other way around.
SETTINGS max_threads = 1, max_block_size = 256, query_plan_join_swap_table = 0
