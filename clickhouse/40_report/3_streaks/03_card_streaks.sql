-- One row is one card that was observed in the window: what its newest tick found, since when it is idle-held or truly-idle, and
-- its idle-held GPU time by the streak it lies in. A streak is ticks of one state in a row: an active tick, or one of the other
-- idle state, ends it; an unknown tick, or a gap of up to twice the longer of the two ticks beside it, does not. watched_since: since
-- when there was no larger gap. free_ratio_at_this_hour: part of what was observed in the hour of the day of the newest tick, in the
-- given zone, in which the card was truly-idle. unknown_us: idle-held time of hours of which runs were not kept.
CREATE OR REPLACE VIEW gua_report.card_streaks $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES}
SELECT
    host,
    gpu,
    STATE_NAMES[newest_state] AS state,
    as_of_ms,
    newest_span_ms,
    if(empty(current), NULL, current[1].start_ms) AS since_ms,
    if(empty(current), NULL, arraySum(current.observed_ms)) AS in_state_ms,
    if(empty(current), NULL, arraySum(current.gpu_us)) AS in_state_us,
    -- Nothing tells what it was just before: there the window, the observation, or the observation after a gap begins, or it was unknown.
    ifNull(
        since_ms - arrayMax(run -> if(run.state != UNKNOWN AND run.start_ms < since_ms, run.end_ms, toInt64(0)), runs)
            > 2 * toInt64(current[1].first_span_ms),
        false
    ) AS is_lower_bound,
    watched[-1][1].start_ms AS watched_since_ms,
    arraySum(arrayMap(streak -> if(arrayMax(streak.is_used), 0, arraySum(streak.gpu_us)), held)) AS never_used_us,
    arraySum(arrayMap(
        streak -> if(arrayMax(streak.is_used) OR arraySum(streak.observed_ms) < {long_streak_ms:Int64}, 0, arraySum(streak.gpu_us)),
        held
    )) AS never_used_long_us,
    arraySum(arrayMap(streak -> if(arrayMax(streak.is_used), arraySum(streak.gpu_us), 0), held)) AS low_us,
    arraySum(arrayMap(
        streak -> if(arrayMax(streak.is_used) AND arraySum(streak.observed_ms) >= {long_streak_ms:Int64}, arraySum(streak.gpu_us), 0),
        held
    )) AS low_long_us,
    unknown_us,
    if(this_hour_ms > 0, this_hour_free_ms / this_hour_ms, NULL) AS free_ratio_at_this_hour
FROM
(
    SELECT
        host,
        gpu,
        sumIf(gpu_us, state = NOT_KEPT) AS unknown_us,
        argMaxIf(state, end_ms, state > NOT_KEPT) AS newest_state,
        maxIf(end_ms, state > NOT_KEPT) AS as_of_ms,
        argMaxIf(last_span_ms, end_ms, state > NOT_KEPT) AS newest_span_ms,
        arraySort(
            run -> run.start_ms,
            CAST(
                groupArrayIf(
                    (state, start_ms, end_ms, first_span_ms, last_span_ms, observed_ms, gpu_us, is_used),
                    state > NOT_KEPT
                ),
                'Array(Tuple(
                    state UInt8,
                    start_ms Int64,
                    end_ms Int64,
                    first_span_ms UInt32,
                    last_span_ms UInt32,
                    observed_ms UInt64,
                    gpu_us UInt64,
                    is_used Bool
                ))'
            )
        ) AS runs,
        arraySplit(
            (run, before) -> ${GAP_BEFORE_RUN},
            runs,
            arrayResize(arrayPushFront(arrayPopBack(runs), runs[1]), length(runs))
        ) AS watched,
        arrayFilter(
            streak -> notEmpty(streak),
            arrayMap(
                streak -> arrayFilter(run -> run.state = IDLE_HELD, streak),
                arraySplit(
                    (run, before) -> run.state IN (ACTIVE, TRULY_IDLE) OR ${GAP_BEFORE_RUN},
                    runs,
                    arrayResize(arrayPushFront(arrayPopBack(runs), runs[1]), length(runs))
                )
            )
        ) AS held,
        arrayFilter(
            streak -> notEmpty(streak),
            arrayMap(
                streak -> arrayFilter(run -> run.state = TRULY_IDLE, streak),
                arraySplit(
                    (run, before) -> run.state IN (ACTIVE, IDLE_HELD) OR ${GAP_BEFORE_RUN},
                    runs,
                    arrayResize(arrayPushFront(arrayPopBack(runs), runs[1]), length(runs))
                )
            )
        ) AS free,
        multiIf(newest_state = IDLE_HELD, held[-1], newest_state = TRULY_IDLE, free[-1], []) AS current,
        CAST(
            -- A run lies within an hour, also one that the window's end cuts.
            groupArrayIf(
                (toHour(toDateTime(intDiv(end_ms - 1, 3600000) * 3600, 'UTC'), {timezone:String}), state, toInt64(observed_ms)),
                state > NOT_KEPT
            ),
            'Array(Tuple(hour UInt8, state UInt8, observed_ms Int64))'
        ) AS hours,
        -- Of hours of UTC like the others, also in zones that differ from it by parts of an hour.
        toHour(toDateTime(intDiv(as_of_ms - 1, 3600000) * 3600, 'UTC'), {timezone:String}) AS this_hour,
        arraySum(arrayMap(each -> if(each.hour = this_hour, each.observed_ms, 0), hours)) AS this_hour_ms,
        arraySum(arrayMap(
            each -> if(each.hour = this_hour AND each.state = TRULY_IDLE, each.observed_ms, 0),
            hours
        )) AS this_hour_free_ms
    FROM gua_report.card_runs(${WINDOW})
    GROUP BY
        host,
        gpu
)
