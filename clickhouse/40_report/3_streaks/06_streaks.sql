-- One row is one limit: the idle streaks with more idle time than it. given_back_us: their GPU time on idle-held cards after the
-- limit. false_alarms: the process was active again within false_alarm_ms of when its idle time reached the limit. A limit of 0 is all
-- streaks. Both times are told by price, too: number and GPU time; what no price given counts for is left out.
CREATE OR REPLACE VIEW gua_report.streaks $ON_CLUSTER
$DEFINER
AS
SELECT
    limit_ms,
    count() AS streaks,
    uniqExact(holder) AS holders,
    sum(streak_ms) AS idle_ms,
    sum(arraySum(runs.idle_held_us)) AS idle_held_us,
    sum(arraySum(given_backs_us)) AS given_back_us,
    countIf(
        next_active_ms >= 0
        -- Since the moment at which it had been idle for so long, in the last run that begins with less.
        AND next_active_ms - arrayMax(
            (run, before_ms) -> if(
                toInt64(before_ms) < greatest(limit_ms, 1),
                run.start_ms + limit_ms - toInt64(before_ms),
                toInt64(0)
            ),
            runs,
            arrayPushFront(arrayPopBack(arrayCumSum(runs.idle_ms)), toUInt64(0))
        ) <= {false_alarm_ms:Int64}
    ) AS false_alarms,
    CAST(
        arrayFilter(part -> part.1 > 0, arrayZip(
            tupleElement(sumMap(prices_of_runs, priced_runs.idle_held_us), 1),
            tupleElement(sumMap(prices_of_runs, priced_runs.idle_held_us), 2)
        )),
        'Array(Tuple(UInt32, UInt64))'
    ) AS idle_held_priced,
    CAST(
        arrayFilter(part -> part.1 > 0, arrayZip(
            tupleElement(sumMap(prices_of_runs, priced_backs_us), 1),
            tupleElement(sumMap(prices_of_runs, priced_backs_us), 2)
        )),
        'Array(Tuple(UInt32, UInt64))'
    ) AS given_back_priced
FROM
(
    SELECT
        holder,
        streak.idle_ms AS streak_ms,
        streak.runs AS runs,
        if(streak.next_active_ms < 0, toInt64(-1), streak.end_ms + streak.next_active_ms) AS next_active_ms,
        arrayJoin(arrayFilter(limit -> toInt64(streak.idle_ms) > limit, {limits_ms:Array(Int64)})) AS limit_ms,
        arrayMap(
            (run, before_ms) -> toUInt64(round(
                run.idle_held_us
                * greatest(toInt64(before_ms + run.idle_ms) - greatest(limit_ms, toInt64(before_ms)), 0)
                / greatest(run.idle_ms, 1)
            )),
            runs,
            arrayPushFront(arrayPopBack(arrayCumSum(runs.idle_ms)), toUInt64(0))
        ) AS given_backs_us,
        if(empty(prices), [], runs) AS priced_runs,
        if(empty(prices), [], given_backs_us) AS priced_backs_us,
        arrayMap(run -> ${PRICE_OF_RUN}, priced_runs) AS prices_of_runs
    FROM
    (
        SELECT
            holder,
            priced.prices AS prices,
            arrayJoin(streaks) AS streak
        FROM gua_report.process_streaks(${WINDOW}) AS process
        LEFT JOIN
        (
            SELECT
                host,
                gpu,
                ${CARD_PRICES} AS prices
            FROM gua.card_info AS cards FINAL
            WHERE notEmpty({price_models:Array(String)})
        ) AS priced
            ON priced.host = process.host AND priced.gpu = process.gpu
        WHERE is_kept
    )
)
GROUP BY limit_ms
ORDER BY limit_ms
