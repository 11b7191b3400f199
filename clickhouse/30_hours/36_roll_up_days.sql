-- One row is one day of a host to merge. The table stores nothing.
CREATE TABLE IF NOT EXISTS gua.due_day_rollups $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host',
    day DateTime('UTC') COMMENT 'Start of the day',
    rollups UInt16 COMMENT 'Rolled-up hours of the day',
    rollups_written_ms UInt64 COMMENT 'Sum of the versions of these rollups [ms]'
)
ENGINE = Null
COMMENT 'Starts the merge of days; stores nothing'
;
-- One row is one past UTC day of a host whose rollups changed after its merge, the newest first, up to one batch.
CREATE OR REPLACE VIEW gua.due_days $ON_CLUSTER
$DEFINER
AS
WITH
    changed AS
    (
        SELECT day
        FROM
        (
            SELECT
                toStartOfDay(hour) AS day,
                toInt64(1) AS rollups,
                toUnixTimestamp64Milli(written) AS rollups_written_ms
            FROM gua.rollups${LOCAL} FINAL
            WHERE hour < toStartOfDay(now('UTC'))
            UNION ALL
            SELECT
                day,
                -toInt64(rollups) AS rollups,
                -toInt64(rollups_written_ms) AS rollups_written_ms
            FROM gua.process_days${LOCAL} FINAL
            WHERE gpu = ''
        )
        GROUP BY day
        HAVING sum(rollups) != 0 OR sum(rollups_written_ms) != 0
    )
SELECT
    host,
    day,
    sum(hours) AS rollups,
    sum(hours_written_ms) AS rollups_written_ms
FROM
(
    SELECT
        host,
        toStartOfDay(hour) AS day,
        toUInt16(1) AS hours,
        toUInt64(toUnixTimestamp64Milli(written)) AS hours_written_ms,
        toUInt16(0) AS merged,
        toUInt64(0) AS merged_written_ms
    FROM gua.rollups${LOCAL} FINAL
    WHERE toStartOfDay(hour) IN (SELECT day FROM changed)
    UNION ALL
    SELECT
        host,
        day,
        toUInt16(0) AS hours,
        toUInt64(0) AS hours_written_ms,
        rollups AS merged,
        rollups_written_ms AS merged_written_ms
    FROM gua.process_days${LOCAL} FINAL
    WHERE gpu = '' AND day IN (SELECT day FROM changed)
)
GROUP BY ALL
HAVING sum(hours) > 0 AND (sum(hours) != sum(merged) OR sum(hours_written_ms) != sum(merged_written_ms))
ORDER BY
    day DESC,
    host
LIMIT $DAYS_AT_ONCE
COMMENT 'Days to merge'
;
-- One row is one row for gua.process_days: a merged day, an empty row, or the marker row of the host. The join also finds old
-- rows without a new one: they keep their key with zeros, and so replace themselves.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.roll_up_days $ON_CLUSTER TO gua.process_days${LOCAL} $DEFINER
AS
WITH
    ${STATES},
    due AS
    (
        SELECT
            host,
            day,
            rollups,
            rollups_written_ms
        FROM gua.due_day_rollups
    ),
    day_intervals AS
    (
        SELECT
            *,
            toStartOfDay(hour) AS day,
            cityHash64(host, gpu, pid, created_ms, day) AS process_day,
            toString((owner, program, container_id, pod_uid, slurm_job_id, systemd_unit)) AS who
        FROM gua.process_intervals${LOCAL} FINAL
        WHERE toStartOfDay(hour) IN (SELECT day FROM due)
            AND (host, toStartOfDay(hour)) IN (SELECT host, day FROM due)
            AND observed_ms > 0
    ),
    -- One row is one streak of a process with one set of names: its part before the first break has number 0.
    day_streaks AS
    (
        SELECT
            host,
            gpu,
            pid,
            created_ms,
            day,
            names,
            number,
            any((owner, program, container_id, pod_uid, slurm_job_id, systemd_unit)) AS named,
            min(intervals.start_ms) AS start_ms,
            max(intervals.end_ms) AS end_ms,
            argMin(intervals.first_span_ms, intervals.start_ms) AS first_span_ms,
            argMax(intervals.last_span_ms, intervals.end_ms) AS last_span_ms,
            argMax(state, intervals.end_ms) AS last_state,
            argMax(tuple(intervals.memory_bytes), intervals.end_ms) AS last_memory,
            sumIf(observed_ms, card_state != TRULY_IDLE) AS held_ms,
            sumIf(gpu_us, card_state = ACTIVE) AS active_us,
            sumIf(gpu_us, card_state = IDLE_HELD) AS idle_held_us,
            sumIf(gpu_us, card_state = UNKNOWN) AS unknown_us,
            sum(intervals.memory_kib_ms) AS memory_kib_ms,
            sum(intervals.memory_known_ms) AS memory_known_ms,
            maxIf(intervals.end_ms, state != PROCESS_UNKNOWN) AS known_until_ms,
            sumIf(observed_ms, state = PROCESS_IDLE) AS idle_ms,
            minIf(intervals.start_ms, state = PROCESS_IDLE) AS idle_since_ms,
            argMinIf(intervals.first_span_ms, intervals.start_ms, state = PROCESS_IDLE) AS idle_first_span_ms,
            maxIf(intervals.end_ms, state = ACTIVE) AS active_until_ms
        FROM
        (
            SELECT
                *,
                sum(if(is_first, state = ACTIVE, is_gap OR state = ACTIVE)) OVER so_far AS number
            FROM
            (
                SELECT
                    *,
                    sum(is_first) OVER so_far AS names
                FROM
                (
                    SELECT
                        *,
                        ${GAP_BEFORE} AS is_gap,
                        who != lagInFrame(who, 1, '') OVER before AS is_first
                    FROM day_intervals
                    WINDOW before AS (PARTITION BY process_day ORDER BY start_ms, end_ms ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
                )
                WINDOW so_far AS (PARTITION BY process_day ORDER BY start_ms, end_ms ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
            )
            WINDOW so_far AS (PARTITION BY process_day, names ORDER BY start_ms, end_ms ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
        ) AS intervals
        GROUP BY ALL
    ),
    process_day_rows AS
    (
        SELECT
            host,
            gpu,
            pid,
            created_ms,
            day,
            min(streaks.start_ms) AS start_ms,
            any(named).1 AS owner,
            any(named).2 AS program,
            any(named).3 AS container_id,
            any(named).4 AS pod_uid,
            any(named).5 AS slurm_job_id,
            any(named).6 AS systemd_unit,
            max(streaks.end_ms) AS end_ms,
            argMin(streaks.first_span_ms, number) AS first_span_ms,
            argMax(streaks.last_span_ms, number) AS last_span_ms,
            argMax(streaks.last_state, number) AS last_state,
            argMax(streaks.last_memory, number).1 AS memory_bytes,
            sum(streaks.held_ms) AS held_ms,
            sum(streaks.active_us) AS active_us,
            sum(streaks.idle_held_us) AS idle_held_us,
            sum(streaks.unknown_us) AS unknown_us,
            sum(streaks.memory_kib_ms) AS memory_kib_ms,
            sum(streaks.memory_known_ms) AS memory_known_ms,
            max(streaks.known_until_ms) AS known_until_ms,
            max(idle_ms) AS longest_idle_ms,
            max(number) > 0 AS has_break,
            sumIf(idle_ms, number = 0) AS head_idle_ms,
            sumIf(idle_since_ms, number = 0) AS head_since_ms,
            toUInt32(sumIf(idle_first_span_ms, number = 0)) AS head_first_span_ms,
            if(has_break, argMax(idle_ms, number), 0) AS tail_idle_ms,
            if(has_break, argMax(idle_since_ms, number), 0) AS tail_since_ms,
            if(has_break, argMax(idle_first_span_ms, number), 0) AS tail_first_span_ms,
            -- Idle time of a streak follows its active interval, if it has one.
            if(
                has_break,
                greatest(maxIf(streaks.known_until_ms, number < last_number), argMax(active_until_ms, number)),
                0
            ) AS tail_known_before_ms
        FROM
        (
            SELECT
                *,
                max(number) OVER (PARTITION BY host, gpu, pid, created_ms, day, names) AS last_number
            FROM day_streaks
        ) AS streaks
        GROUP BY
            host,
            gpu,
            pid,
            created_ms,
            day,
            names
    )
SELECT
    host,
    gpu,
    pid,
    created_ms,
    day,
    start_ms,
    now64(3, 'UTC') AS written,
    present.rollups AS rollups,
    present.rollups_written_ms AS rollups_written_ms,
    made.* EXCEPT (host, gpu, pid, created_ms, day, start_ms)
FROM
(
    SELECT
        host,
        '' AS gpu,
        toUInt32(0) AS pid,
        toInt64(0) AS created_ms,
        day,
        toInt64(0) AS start_ms,
        rollups,
        rollups_written_ms
    FROM due
    UNION ALL
    SELECT
        host,
        gpu,
        pid,
        created_ms,
        day,
        start_ms,
        toUInt16(0) AS rollups,
        toUInt64(0) AS rollups_written_ms
    FROM gua.process_days${LOCAL}
    WHERE (host, day) IN (SELECT host, day FROM due) AND gpu != ''
) AS present
FULL OUTER JOIN process_day_rows AS made USING (host, gpu, pid, created_ms, day, start_ms)
COMMENT 'Merges the hours of due days'
