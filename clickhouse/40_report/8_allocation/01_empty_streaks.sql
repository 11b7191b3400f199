-- One row is one streak in the window in which an allocation of a card was empty. A tick with another known use ends it. An unknown tick,
-- or a gap up to twice the longer tick beside it, does not. is_lower_bound: the use before it is unknown. next_used_ms runs from its end
-- to the next time with its owner there, or is -1. as_of_ms is the end of the card's newest tick in the window. priced is GPU time by
-- price number, without unpriced time. pieces are its intervals, prices_of_pieces their prices if the query passes any.
CREATE OR REPLACE VIEW gua_report.empty_streaks $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    ${USES}
${EMPTY_STREAKS}
ORDER BY
    host,
    gpu,
    start_ms,
    source,
    allocation_id
;
-- One row is one limit: the empty streaks longer than it; a limit of 0 has all. given_back_us is their GPU time after the limit.
-- false_alarms counts owners there again within false_alarm_ms of the limit. Both GPU times are also given by price number, without
-- unpriced time.
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
        if(next_used_ms < 0, toInt64(-1), end_ms + next_used_ms) AS used_again_ms,
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
${EMPTY_STREAKS}
    )
)
GROUP BY limit_ms
ORDER BY limit_ms
