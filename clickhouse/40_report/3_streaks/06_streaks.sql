-- One row is one limit: the idle streaks longer than it, by the rule of gua_report.idle_streaks; a limit of 0 has all. given_back_us is
-- their GPU time on idle-held cards after the limit. false_alarms counts processes active again within false_alarm_ms of the limit. Both
-- GPU times are also given by price number, without unpriced time. Holders are counted by hash; for a million holders the chance of a
-- collision is 3 in 10^8. Reports that query hosts in batches (in_parts) get the hashes, as a holder may have cards in two batches.
CREATE OR REPLACE VIEW gua_report.streaks $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES}
SELECT
    limit_ms,
    count() AS streaks,
    uniqExact(holder) AS holders,
    groupUniqArrayIf(holder, {in_parts:UInt8} > 0) AS holder_hashes,
    sum(streak_ms) AS idle_ms,
    sum(streak_us) AS idle_held_us,
    sum(back_us) AS given_back_us,
    countIf(
        next_active_ms >= 0
        -- From the moment at which idle time reached the limit. Holes within an interval, up to 1 s, are spread over it.
        AND next_active_ms - starts_ms[last] - toInt64(round(
            (limit_ms - toInt64(idle_until_ms[last] - idles_ms[last])) * (ends_ms[last] - starts_ms[last]) / idles_ms[last]
        )) <= {false_alarm_ms:Int64}
    ) AS false_alarms,
    CAST(
        arrayFilter(part -> part.1 > 0, arrayZip((sumMap(prices_of_intervals, priced_us) AS of_streaks).1, of_streaks.2)),
        'Array(Tuple(UInt32, UInt64))'
    ) AS idle_held_priced,
    CAST(
        arrayFilter(part -> part.1 > 0, arrayZip((sumMap(prices_of_intervals, priced_backs_us) AS of_backs).1, of_backs.2)),
        'Array(Tuple(UInt32, UInt64))'
    ) AS given_back_priced
FROM
(
    SELECT
        *,
        arrayJoin(arrayFilter(limit -> toInt64(streak_ms) > limit, {limits_ms:Array(Int64)})) AS limit_ms,
        -- The last interval that begins with less idle time than the limit.
        arrayFirstIndex(idle -> toInt64(idle) >= greatest(limit_ms, 1), idle_until_ms) AS last,
        -- The interval in which idle time reaches the limit; GPU time after it is given back.
        arrayFirstIndex(idle -> toInt64(idle) > limit_ms, idle_until_ms) AS reached,
        toUInt64(round(
            (held_until_us[reached] - held_until_us[reached - 1])
            * (toInt64(idle_until_ms[reached]) - limit_ms)
            / (idle_until_ms[reached] - idle_until_ms[reached - 1])
        )) AS reached_us,
        streak_us - held_until_us[reached] + reached_us AS back_us,
        arrayMap(
            (held_us, position) -> multiIf(position < reached, 0, position = reached, reached_us, held_us),
            priced_us,
            arrayEnumerate(priced_us)
        ) AS priced_backs_us
    FROM
    (
        SELECT
            if(known_holder = 0, cityHash64('process', host, pid, created_ms), known_holder) AS holder,
            next_active_ms,
            -- Idle and GPU time from the streak's start to the end of each interval, without unknown ones.
            arrayCumSum(streak.idle_ms) AS idle_until_ms,
            arrayCumSum(streak.idle_held_us) AS held_until_us,
            idle_until_ms[-1] AS streak_ms,
            held_until_us[-1] AS streak_us,
            streak.start_ms AS starts_ms,
            streak.end_ms AS ends_ms,
            streak.idle_ms AS idles_ms,
            arrayMap(
                each -> arrayLast(number -> {price_starts:Array(Int64)}[number] < each.end_ms, prices),
                if(empty(prices), [], streak)
            ) AS prices_of_intervals,
            if(empty(prices), [], streak.idle_held_us) AS priced_us
        FROM
        (
            SELECT
                host,
                pid,
                created_ms,
                known_holder,
                priced.prices AS prices,
                CAST(
                    arrayZip(
                        intervals.start_ms,
                        intervals.end_ms,
                        intervals.state,
                        intervals.first_span_ms,
                        intervals.last_span_ms,
                        intervals.idle_ms,
                        intervals.idle_held_us,
                        -- Start of the next active interval, or -1.
                        arrayReverseFill(
                            at_ms -> at_ms >= 0,
                            arrayMap(each -> if(each.state = ACTIVE, each.start_ms, toInt64(-1)), intervals)
                        )
                    ),
                    'Array(Tuple(
                        start_ms Int64,
                        end_ms Int64,
                        state UInt8,
                        first_span_ms UInt32,
                        last_span_ms UInt32,
                        idle_ms UInt64,
                        idle_held_us UInt64,
                        next_active_ms Int64
                    ))'
                ) AS every_interval,
                -- An active interval ends a streak, whatever the gap beside it.
                arrayFilter(each -> each.state != ACTIVE, every_interval) AS inactive,
                arraySplit(
                    (each, before) -> each.next_active_ms != before.next_active_ms
                        OR each.start_ms - before.end_ms > 2 * toInt64(greatest(each.first_span_ms, before.last_span_ms)),
                    inactive,
                    arrayPushFront(arrayPopBack(inactive), inactive[1])
                ) AS segments,
                arrayJoin(segments) AS streak,
                streak[1].next_active_ms AS next_active_ms
            FROM
            (
                SELECT
                    host,
                    gpu,
                    pid,
                    created_ms,
                    argMax(
                        multiIf(
                            slurm_job_id IS NOT NULL, assumeNotNull(cityHash64('job', slurm_job_id)),
                            pod_uid IS NOT NULL, assumeNotNull(cityHash64('pod', pod_uid)),
                            container_id IS NOT NULL, assumeNotNull(cityHash64('container', container_id)),
                            owner IS NOT NULL, assumeNotNull(cityHash64('user', owner)),
                            toUInt64(0)
                        ),
                        start_ms
                    ) AS known_holder,
                    groupArray(start_ms) AS unsorted_ms,
                    -- Arrays of numbers sorted together: groups of tuples take several times as long.
                    arraySort(
                        (each, by) -> by,
                        CAST(
                            arrayZip(
                                unsorted_ms,
                                groupArray(end_ms),
                                groupArray(state),
                                groupArray(first_span_ms),
                                groupArray(last_span_ms),
                                groupArray(if(state = PROCESS_IDLE, observed_ms, 0)),
                                groupArray(if(state = PROCESS_IDLE AND card_state = IDLE_HELD, gpu_us, 0))
                            ),
                            'Array(Tuple(
                                start_ms Int64,
                                end_ms Int64,
                                state UInt8,
                                first_span_ms UInt32,
                                last_span_ms UInt32,
                                idle_ms UInt64,
                                idle_held_us UInt64
                            ))'
                        ),
                        unsorted_ms
                    ) AS intervals
                FROM ${INTERVALS_OF_PROCESSES}
                GROUP BY ALL
                HAVING countIf(state = PROCESS_IDLE) > 0
            ) AS process
            LEFT JOIN ${PRICED_CARDS} AS priced
                ON priced.card_host = process.host AND priced.card_gpu = process.gpu
        )
    )
)
GROUP BY limit_ms
ORDER BY limit_ms
