-- One row is one card observed in the window: its newest state, and the streak of that if it is idle-held or truly-idle. never_used_us and
-- low_us are idle-held GPU time of streaks without and with use, the long ones of streaks of at least {long_streak_ms}. A streak is
-- consecutive ticks of one state. An active tick or one of the other idle state ends it. An unknown tick, or a gap up to twice the longer
-- tick beside it, does not. watched_since_ms is the end of the last longer gap. is_lower_bound: the state before since_ms is unknown.
-- stuck_us is GPU time of stretches over {stuck_ms} in which it was active without a process; longest_without is the longest stretch:
-- observed time, start and end. Any other tick and a gap end one. free_ratio_at_this_hour is the truly-idle share in the hour of day of
-- the newest tick, in {timezone}.
CREATE OR REPLACE VIEW gua_report.card_streaks $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    intervals AS
    (
        SELECT
            *,
            sum(is_gap OR state IN (ACTIVE, TRULY_IDLE)) OVER so_far AS held_streak,
            sum(is_gap OR state IN (ACTIVE, IDLE_HELD)) OVER so_far AS free_streak,
            sum(is_gap OR NOT is_without_process) OVER so_far AS without_streak,
            sum(is_gap) OVER so_far AS watched
        FROM
        (
            SELECT
                *,
                ${GAP_BEFORE} AS is_gap
            FROM ${INTERVALS_OF_CARDS}
            WINDOW before AS (PARTITION BY host, gpu ORDER BY start_ms, end_ms ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
        )
        WINDOW so_far AS (PARTITION BY host, gpu ORDER BY start_ms, end_ms ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
    )
SELECT
    host,
    gpu,
    STATE_NAMES[any(newest_state)] AS state,
    any(newest_ms) AS as_of_ms,
    argMax(last_span_ms, end_ms) AS newest_span_ms,
    any(streak_since_ms) AS since_ms,
    if(since_ms IS NULL, NULL, sumIf(observed_ms, is_current)) AS in_state_ms,
    if(since_ms IS NULL, NULL, sumIf(gpu_us, is_current)) AS in_state_us,
    ifNull(
        since_ms - maxIf(end_ms, state_code != UNKNOWN AND start_ms < streak_since_ms)
            > 2 * toInt64(argMinIf(first_span_ms, start_ms, is_current)),
        false
    ) AS is_lower_bound,
    minIf(start_ms, watched = newest_watched) AS watched_since_ms,
    sumIf(gpu_us, state_code = IDLE_HELD AND NOT was_used) AS never_used_us,
    sumIf(gpu_us, state_code = IDLE_HELD AND NOT was_used AND held_ms >= {long_streak_ms:Int64}) AS never_used_long_us,
    sumIf(gpu_us, state_code = IDLE_HELD AND was_used) AS low_us,
    sumIf(gpu_us, state_code = IDLE_HELD AND was_used AND held_ms >= {long_streak_ms:Int64}) AS low_long_us,
    sumIf(gpu_us, is_without_process AND without_ms > {stuck_ms:Int64}) AS stuck_us,
    maxIf((without_ms, without_since_ms, without_until_ms), is_without_process) AS longest_without,
    sumIf(observed_ms, hour_of_day = newest_hour AND state_code = TRULY_IDLE)
        / nullIf(sumIf(observed_ms, hour_of_day = newest_hour), 0) AS free_ratio_at_this_hour
FROM
(
    SELECT
        *,
        min(if(is_current, start_ms, NULL)) OVER (PARTITION BY host, gpu) AS streak_since_ms,
        sum(if(state = IDLE_HELD, observed_ms, 0)) OVER of_streak AS held_ms,
        max(is_used AND state = IDLE_HELD) OVER of_streak AS was_used,
        sum(observed_ms) OVER of_without AS without_ms,
        min(start_ms) OVER of_without AS without_since_ms,
        max(end_ms) OVER of_without AS without_until_ms
    FROM
    (
        SELECT
            *,
            state AS state_code,
            -- By UTC hours, also in zones with an offset that is no whole number of hours.
            toHour(toDateTime(intDiv(end_ms - 1, 3600000) * 3600, 'UTC'), {timezone:String}) AS hour_of_day,
            max(end_ms) OVER card AS newest_ms,
            argMax(state, end_ms) OVER card AS newest_state,
            max(held_streak) OVER card AS newest_held,
            max(free_streak) OVER card AS newest_free,
            max(watched) OVER card AS newest_watched,
            toHour(toDateTime(intDiv(newest_ms - 1, 3600000) * 3600, 'UTC'), {timezone:String}) AS newest_hour,
            state = newest_state AND multiIf(
                state = IDLE_HELD, held_streak = newest_held,
                state = TRULY_IDLE, free_streak = newest_free,
                false
            ) AS is_current
        FROM intervals
        WINDOW card AS (PARTITION BY host, gpu)
    )
    WINDOW
        of_streak AS (PARTITION BY host, gpu, held_streak),
        of_without AS (PARTITION BY host, gpu, is_without_process, without_streak)
)
GROUP BY
    host,
    gpu
