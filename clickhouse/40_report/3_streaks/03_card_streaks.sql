-- One row is one card that was observed in the window: what its newest tick found, since when it is idle-held or truly-idle, and
-- its idle-held GPU time by the streak it lies in. A streak is ticks of one state in a row: an active tick, or one of the other
-- idle state, ends it; an unknown tick, or a gap of up to twice the longer of the two ticks beside it, does not. watched_since: since
-- when there was no larger gap. usual: part of what was observed in the hour of the day of the newest tick, in the given zone, in
-- which the card was truly-idle.
CREATE OR REPLACE VIEW gua_report.card_streaks $ON_CLUSTER
$DEFINER
AS
SELECT
    host,
    gpu,
    ['active', 'idle-held', 'truly-idle', 'unknown'][newest_state] AS state,
    as_of_ms,
    newest_span_ms,
    if(empty(current), NULL, current[1].2) AS since_ms,
    if(empty(current), NULL, arraySum(current.6)) AS in_state_ms,
    if(empty(current), NULL, arraySum(current.7)) AS in_state_us,
    -- Nothing tells what it was just before: there the window, the observation, or the observation after a gap begins, or it was unknown.
    ifNull(
        since_ms - arrayMax(run -> if(run.1 != 4 AND run.2 < since_ms, run.3, toInt64(0)), runs) > 2 * toInt64(current[1].4),
        false
    ) AS is_at_least,
    watched[-1][1].2 AS watched_since_ms,
    arraySum(arrayMap(streak -> if(arrayMax(streak.8), 0, arraySum(streak.7)), held)) AS never_used_us,
    arraySum(arrayMap(streak -> if(arrayMax(streak.8) OR arraySum(streak.6) < {long_ms:Int64}, 0, arraySum(streak.7)), held)) AS never_used_long_us,
    arraySum(arrayMap(streak -> if(arrayMax(streak.8), arraySum(streak.7), 0), held)) AS low_us,
    arraySum(arrayMap(streak -> if(arrayMax(streak.8) AND arraySum(streak.6) >= {long_ms:Int64}, arraySum(streak.7), 0), held)) AS low_long_us,
    not_kept_us,
    if(this_hour_ms > 0, this_hour_free_ms / this_hour_ms, NULL) AS usual
FROM
(
    SELECT
        host,
        gpu,
        sumIf(gpu_us, state = 0) AS not_kept_us,
        argMaxIf(state, end_ms, state > 0) AS newest_state,
        maxIf(end_ms, state > 0) AS as_of_ms,
        argMaxIf(last_span_ms, end_ms, state > 0) AS newest_span_ms,
        arraySort(
            run -> run.2,
            groupArrayIf((state, start_ms, end_ms, first_span_ms, last_span_ms, observed_ms, gpu_us, is_used), state > 0)
        ) AS runs,
        arraySplit(
            (run, before) -> run.2 - before.3 > 2 * toInt64(greatest(run.4, before.5)),
            runs,
            arrayResize(arrayPushFront(arrayPopBack(runs), runs[1]), length(runs))
        ) AS watched,
        arrayFilter(
            streak -> notEmpty(streak),
            arrayMap(
                streak -> arrayFilter(run -> run.1 = 2, streak),
                arraySplit(
                    (run, before) -> run.1 IN (1, 3) OR run.2 - before.3 > 2 * toInt64(greatest(run.4, before.5)),
                    runs,
                    arrayResize(arrayPushFront(arrayPopBack(runs), runs[1]), length(runs))
                )
            )
        ) AS held,
        arrayFilter(
            streak -> notEmpty(streak),
            arrayMap(
                streak -> arrayFilter(run -> run.1 = 3, streak),
                arraySplit(
                    (run, before) -> run.1 IN (1, 2) OR run.2 - before.3 > 2 * toInt64(greatest(run.4, before.5)),
                    runs,
                    arrayResize(arrayPushFront(arrayPopBack(runs), runs[1]), length(runs))
                )
            )
        ) AS free,
        multiIf(newest_state = 2, held[-1], newest_state = 3, free[-1], []) AS current,
        groupArrayIf((toHour(hour, {timezone:String}), state, toInt64(observed_ms)), state > 0) AS hours,
        -- Of hours of UTC like the others, also in zones that differ from it by parts of an hour.
        toHour(toDateTime(intDiv(as_of_ms - 1, 3600000) * 3600, 'UTC'), {timezone:String}) AS this_hour,
        arraySum(arrayMap(one -> if(one.1 = this_hour, one.3, 0), hours)) AS this_hour_ms,
        arraySum(arrayMap(one -> if(one.1 = this_hour AND one.2 = 3, one.3, 0), hours)) AS this_hour_free_ms
    FROM gua_report.card_runs(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)}, ticked = {ticked:Array(Int64)}, stored = {stored:UInt8})
    GROUP BY
        host,
        gpu
)
