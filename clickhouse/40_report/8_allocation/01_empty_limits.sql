-- One row is one limit: the streaks longer than it in which an allocation of a card was empty; a limit of 0 has all. A tick with
-- another known use ends a streak. An unknown tick, or a gap up to twice the longer tick beside it, does not. given_back_us is their GPU
-- time after the limit. false_alarms counts owners there again within false_alarm_ms of the limit. Both GPU times are also given by price
-- number, without unpriced time.
CREATE OR REPLACE VIEW gua_report.empty_limits $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    ${USES}
SELECT
    limit_ms,
    count() AS streaks,
    uniqExact(host, source, allocation_id) AS allocations,
    sum(streak_ms) AS empty_ms,
    sum(streak_us) AS empty_us,
    sum(arraySum(given_backs_us)) AS given_back_us,
    countIf(
        used_again_ms >= 0
        -- From the moment at which empty time reached the limit. Holes within an interval, up to 1 s, are spread over it.
        AND used_again_ms - pieces[last].start_ms - toInt64(round(
            (limit_ms - toInt64(empty_until_ms[last] - pieces[last].empty_ms))
            * (pieces[last].end_ms - pieces[last].start_ms)
            / pieces[last].empty_ms
        )) <= {false_alarm_ms:Int64}
    ) AS false_alarms,
    CAST(
        arrayFilter(part -> part.1 > 0, arrayZip(
            tupleElement(sumMap(prices_of_pieces, priced_us), 1),
            tupleElement(sumMap(prices_of_pieces, priced_us), 2)
        )),
        'Array(Tuple(UInt32, UInt64))'
    ) AS empty_priced,
    CAST(
        arrayFilter(part -> part.1 > 0, arrayZip(
            tupleElement(sumMap(prices_of_pieces, priced_backs_us), 1),
            tupleElement(sumMap(prices_of_pieces, priced_backs_us), 2)
        )),
        'Array(Tuple(UInt32, UInt64))'
    ) AS given_back_priced
FROM
(
    SELECT
        host,
        source,
        allocation_id,
        empty_ms AS streak_ms,
        gpu_us AS streak_us,
        pieces,
        prices_of_pieces,
        used_again_ms,
        arrayJoin(arrayFilter(limit -> toInt64(streak_ms) > limit, {limits_ms:Array(Int64)})) AS limit_ms,
        arrayCumSum(pieces.empty_ms) AS empty_until_ms,
        -- The last interval that begins with less empty time than the limit.
        arrayFirstIndex(empty -> toInt64(empty) >= greatest(limit_ms, 1), empty_until_ms) AS last,
        arrayMap(
            (each, before_ms) -> toUInt64(round(
                each.gpu_us
                * greatest(toInt64(before_ms + each.empty_ms) - greatest(limit_ms, toInt64(before_ms)), 0)
                / greatest(each.empty_ms, 1)
            )),
            pieces,
            arrayPushFront(arrayPopBack(empty_until_ms), toUInt64(0))
        ) AS given_backs_us,
        if(empty(prices_of_pieces), [], pieces.gpu_us) AS priced_us,
        if(empty(prices_of_pieces), [], given_backs_us) AS priced_backs_us
    FROM
    (
        SELECT
            host,
            gpu,
            source,
            allocation_id,
            used_again_ms,
            arraySum(pieces.empty_ms) AS empty_ms,
            arraySum(pieces.gpu_us) AS gpu_us,
            pieces,
            if(
                empty(prices),
                [],
                arrayMap(each -> toUInt32(arrayLast(number -> {price_starts:Array(Int64)}[number] < each.end_ms, prices)), pieces)
            ) AS prices_of_pieces
        FROM
        (
            SELECT
                toString(host) AS host,
                toString(gpu) AS gpu,
                toString(source) AS source,
                toString(allocation_id) AS allocation_id,
                used_again_ms,
                CAST(
                    arrayMap(each -> (each.observed_ms, each.gpu_us, each.start_ms, each.end_ms), intervals),
                    'Array(Tuple(empty_ms UInt64, gpu_us UInt64, start_ms Int64, end_ms Int64))'
                ) AS pieces
            FROM
            (
                SELECT
                    host,
                    gpu,
                    source,
                    allocation_id,
                    arraySort(
                        each -> (each.start_ms, each.end_ms),
                        CAST(
                            groupArray((use, start_ms, end_ms, first_span_ms, last_span_ms, observed_ms, gpu_us)),
                            'Array(Tuple(
                                use UInt8,
                                start_ms Int64,
                                end_ms Int64,
                                first_span_ms UInt32,
                                last_span_ms UInt32,
                                observed_ms UInt64,
                                gpu_us UInt64
                            ))'
                        )
                    ) AS every_interval,
                    arraySplit(
                        (each, before) -> each.use NOT IN (EMPTY, USE_UNKNOWN)
                            OR each.start_ms - before.end_ms > 2 * toInt64(greatest(each.first_span_ms, before.last_span_ms)),
                        every_interval,
                        arrayPushFront(arrayPopBack(every_interval), every_interval[1])
                    ) AS segments,
                    arrayMap(segment -> arrayFilter(each -> each.use = EMPTY, segment), segments) AS empty_intervals,
                    -- For each segment the next time with its owner there: an interval with the owner there always begins a segment.
                    arrayPushBack(
                        arrayPopFront(
                            arrayReverseFill(
                                at_ms -> at_ms >= 0,
                                arrayMap(segment -> if(segment[1].use IN (USED, HELD), segment[1].start_ms, toInt64(-1)), segments)
                            )
                        ),
                        toInt64(-1)
                    ) AS every_used_again_ms
                FROM ${INTERVALS_OF_ALLOCATIONS}
                WHERE source != ''
                GROUP BY
                    host,
                    gpu,
                    source,
                    allocation_id
            )
            ARRAY JOIN
                empty_intervals AS intervals,
                every_used_again_ms AS used_again_ms
            WHERE notEmpty(intervals)
        ) AS streak
        LEFT JOIN ${PRICED_CARDS} AS card
            ON card.card_host = streak.host AND card.card_gpu = streak.gpu
    )
)
GROUP BY limit_ms
ORDER BY limit_ms
