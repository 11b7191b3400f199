-- One row is one row of gua.host_days as it should be written: the due days, added up from their hours.
CREATE OR REPLACE VIEW gua_report.counted_days $ON_CLUSTER
$COLUMNS_OF 03_host_days
$DEFINER
AS
WITH
    ${STATES},
    ${LONG_STREAK},
    -- Asked for once, before any hour is read: what arrives from then on leaves the day due.
    (
        SELECT CAST(
            groupArray((host, day, marks, fingerprint, is_kept)),
            'Array(Tuple(
                host LowCardinality(String),
                day DateTime(\'UTC\'),
                marks UInt64,
                fingerprint UInt64,
                is_kept Bool
            ))'
        )
        FROM gua_report.due_days
    ) AS due,
    due_rows AS
    (
        SELECT
            each.host AS host,
            each.day AS day,
            each.marks AS marks,
            each.fingerprint AS fingerprint,
            each.is_kept AS is_kept
        FROM (SELECT arrayJoin(due) AS each)
    ),
    hours AS
    (
        SELECT
            *,
            toStartOfDay(hour) AS day
        FROM gua.host_hours${LOCAL} FINAL
        WHERE host IN (SELECT host FROM due_rows)
            AND toMonday(hour) IN (SELECT toMonday(day) FROM due_rows)
            AND toStartOfDay(hour) IN (SELECT day FROM due_rows)
            AND (host, toStartOfDay(hour)) IN (
                SELECT
                    host,
                    day
                FROM due_rows
            )
    ),
${DAY_CARDS},
${DAY_OWNERS},
${DAY_MEASUREMENTS},
${DAY_TOLD},
${DAY_STREAKS},
${DAY_PROCESSES}
SELECT
    due_rows.host AS host,
    due_rows.day AS day,
    due_rows.marks AS marks,
    due_rows.fingerprint AS fingerprint,
    due_rows.is_kept AS is_kept,
    now64(3, 'UTC') AS written,
    if(day_rows.day_first_ms = 0, toInt64(9000000000000000000), day_rows.day_first_ms) AS first_ms,
    cityHash64(card_rows.each.gpu) AS cards_key,
    arrayMax(card_rows.each.interval_ms) AS interval_ms,
    if(card_rows.are_alike, card_rows.each.starts_ms[1], []) AS starts_ms,
    if(card_rows.are_alike, card_rows.each.ends_ms[1], []) AS ends_ms,
    day_rows.ticks_of AS hour_ticks,
    day_rows.gpu_time_of AS hour_gpu_time_ms,
    card_rows.each.gpu AS `cards.gpu`,
    card_rows.each.interval_ms AS `cards.interval_ms`,
    if(
        card_rows.are_alike,
        arrayMap(of_card -> CAST([], 'Array(Int64)'), card_rows.each.starts_ms),
        card_rows.each.starts_ms
    ) AS `cards.starts_ms`,
    if(
        card_rows.are_alike,
        arrayMap(of_card -> CAST([], 'Array(Int64)'), card_rows.each.ends_ms),
        card_rows.each.ends_ms
    ) AS `cards.ends_ms`,
    card_rows.each.active_ticks AS `cards.active_ticks`,
    card_rows.each.idle_held_ticks AS `cards.idle_held_ticks`,
    card_rows.each.truly_idle_ticks AS `cards.truly_idle_ticks`,
    card_rows.each.unknown_ticks AS `cards.unknown_ticks`,
    card_rows.each.active_gpu_time_ms AS `cards.active_gpu_time_ms`,
    card_rows.each.idle_held_gpu_time_ms AS `cards.idle_held_gpu_time_ms`,
    card_rows.each.truly_idle_gpu_time_ms AS `cards.truly_idle_gpu_time_ms`,
    card_rows.each.unknown_gpu_time_ms AS `cards.unknown_gpu_time_ms`,
    card_rows.each.active_ms AS `cards.active_ms`,
    card_rows.each.idle_held_ms AS `cards.idle_held_ms`,
    card_rows.each.truly_idle_ms AS `cards.truly_idle_ms`,
    card_rows.each.unknown_ms AS `cards.unknown_ms`,
    unknown_rows.each.gpu AS `unknowns.gpu`,
    unknown_rows.each.reason AS `unknowns.reason`,
    unknown_rows.each.ticks AS `unknowns.ticks`,
    unknown_rows.each.gpu_time_ms AS `unknowns.gpu_time_ms`,
    unknown_rows.each.duration_ms AS `unknowns.duration_ms`,
    identity_rows.each.gpu AS `identities.gpu`,
    identity_rows.each.owner AS `identities.owner`,
    identity_rows.each.program AS `identities.program`,
    identity_rows.each.state AS `identities.state`,
    identity_rows.each.gpu_time_ms AS `identities.gpu_time_ms`,
    identity_rows.each.duration_ms AS `identities.duration_ms`,
    share_rows.each.gpu AS `shares.gpu`,
    share_rows.each.start_ms AS `shares.start_ms`,
    share_rows.each.end_ms AS `shares.end_ms`,
    share_rows.each.duration_ms AS `shares.duration_ms`,
    share_rows.each.gpu_time_ms AS `shares.gpu_time_ms`,
    energy_rows.each.gpu AS `energies.gpu`,
    energy_rows.each.state AS `energies.state`,
    energy_rows.each.measured_mj AS `energies.measured_mj`,
    energy_rows.each.measured_ms AS `energies.measured_ms`,
    energy_rows.each.estimated_mj AS `energies.estimated_mj`,
    energy_rows.each.estimated_ms AS `energies.estimated_ms`,
    energy_rows.each.unknown_ms AS `energies.unknown_ms`,
    idle_rows.each.gpu AS `idle_times.gpu`,
    idle_rows.each.state AS `idle_times.state`,
    idle_rows.each.sampled_us AS `idle_times.sampled_us`,
    idle_rows.each.idle_us AS `idle_times.idle_us`,
    idle_rows.each.powered_us AS `idle_times.powered_us`,
    idle_rows.each.energy_mj AS `idle_times.energy_mj`,
    activity_rows.each.gpu AS `activities.gpu`,
    activity_rows.each.metric AS `activities.metric`,
    activity_rows.each.told_us AS `activities.told_us`,
    activity_rows.each.weighted AS `activities.weighted`,
    activity_rows.each.low_us AS `activities.low_us`,
    streak_rows.each.gpu AS `held_streaks.gpu`,
    streak_rows.each.first_ms AS `held_streaks.first_ms`,
    streak_rows.each.first_span_ms AS `held_streaks.first_span_ms`,
    streak_rows.each.last_ms AS `held_streaks.last_ms`,
    streak_rows.each.last_span_ms AS `held_streaks.last_span_ms`,
    streak_rows.each.is_broken AS `held_streaks.is_broken`,
    streak_rows.each.head_ms AS `held_streaks.head_ms`,
    streak_rows.each.head_gpu_time_ms AS `held_streaks.head_gpu_time_ms`,
    streak_rows.each.head_is_used AS `held_streaks.head_is_used`,
    streak_rows.each.tail_ms AS `held_streaks.tail_ms`,
    streak_rows.each.tail_gpu_time_ms AS `held_streaks.tail_gpu_time_ms`,
    streak_rows.each.tail_is_used AS `held_streaks.tail_is_used`,
    streak_rows.each.never_used_gpu_time_ms AS `held_streaks.never_used_gpu_time_ms`,
    streak_rows.each.never_used_long_gpu_time_ms AS `held_streaks.never_used_long_gpu_time_ms`,
    streak_rows.each.low_gpu_time_ms AS `held_streaks.low_gpu_time_ms`,
    streak_rows.each.low_long_gpu_time_ms AS `held_streaks.low_long_gpu_time_ms`,
    streak_rows.each.unknown_gpu_time_ms AS `held_streaks.unknown_gpu_time_ms`,
    streak_rows.each.watched_ms AS `held_streaks.watched_ms`,
    streak_rows.each.known_ms AS `held_streaks.known_ms`,
    streak_rows.each.held_since_ms AS `held_streaks.held_since_ms`,
    streak_rows.each.held_span_ms AS `held_streaks.held_span_ms`,
    streak_rows.each.held_before_ms AS `held_streaks.held_before_ms`,
    streak_rows.each.is_free_broken AS `held_streaks.is_free_broken`,
    streak_rows.each.free_ms AS `held_streaks.free_ms`,
    streak_rows.each.free_gpu_time_ms AS `held_streaks.free_gpu_time_ms`,
    streak_rows.each.free_since_ms AS `held_streaks.free_since_ms`,
    streak_rows.each.free_span_ms AS `held_streaks.free_span_ms`,
    streak_rows.each.free_before_ms AS `held_streaks.free_before_ms`,
    process_rows.each.gpu AS `processes.gpu`,
    process_rows.each.pid AS `processes.pid`,
    process_rows.each.created_ms AS `processes.created_ms`,
    process_rows.each.owner AS `processes.owner`,
    process_rows.each.program AS `processes.program`,
    process_rows.each.first_ms AS `processes.first_ms`,
    process_rows.each.last_ms AS `processes.last_ms`,
    process_rows.each.is_newest AS `processes.is_newest`,
    process_rows.each.before_ms AS `processes.before_ms`,
    process_rows.each.first_span_ms AS `processes.first_span_ms`,
    process_rows.each.last_span_ms AS `processes.last_span_ms`,
    process_rows.each.is_broken AS `processes.is_broken`,
    process_rows.each.head_idle_ms AS `processes.head_idle_ms`,
    process_rows.each.head_since_ms AS `processes.head_since_ms`,
    process_rows.each.head_span_ms AS `processes.head_span_ms`,
    process_rows.each.tail_idle_ms AS `processes.tail_idle_ms`,
    process_rows.each.tail_since_ms AS `processes.tail_since_ms`,
    process_rows.each.tail_span_ms AS `processes.tail_span_ms`,
    process_rows.each.tail_unknown_ms AS `processes.tail_unknown_ms`,
    process_rows.each.longest_idle_ms AS `processes.longest_idle_ms`,
    process_rows.each.unknown_ms AS `processes.unknown_ms`,
    process_rows.each.held_gpu_time_ms AS `processes.held_gpu_time_ms`,
    process_rows.each.held_kib_ms AS `processes.held_kib_ms`,
    process_rows.each.held_known_ms AS `processes.held_known_ms`,
    size_rows.each.gpu AS `sizes.gpu`,
    size_rows.each.limit_bytes AS `sizes.limit_bytes`,
    size_rows.each.reserved_bytes AS `sizes.reserved_bytes`,
    size_rows.each.is_cut AS `sizes.is_cut`,
    size_rows.each.is_instance AS `sizes.is_instance`,
    size_rows.each.is_shared AS `sizes.is_shared`,
    size_rows.each.whole_bytes AS `sizes.whole_bytes`,
    health_rows.each.gpu AS `health.gpu`,
    health_rows.each.told_ms AS `health.told_ms`,
    health_rows.each.heat_ms AS `health.heat_ms`,
    health_rows.each.power_cap_ms AS `health.power_cap_ms`,
    health_rows.each.hardware_ms AS `health.hardware_ms`,
    health_rows.each.slowed_ms AS `health.slowed_ms`,
    health_rows.each.xid_errors AS `health.xid_errors`,
    health_rows.each.xid AS `health.xid`,
    health_rows.each.ecc_errors AS `health.ecc_errors`,
    health_rows.each.row_remap AS `health.row_remap`
FROM due_rows
LEFT JOIN day_rows
    ON day_rows.host = due_rows.host AND day_rows.day = due_rows.day
LEFT JOIN card_rows
    ON card_rows.host = due_rows.host AND card_rows.day = due_rows.day
LEFT JOIN unknown_rows
    ON unknown_rows.host = due_rows.host AND unknown_rows.day = due_rows.day
LEFT JOIN identity_rows
    ON identity_rows.host = due_rows.host AND identity_rows.day = due_rows.day
LEFT JOIN share_rows
    ON share_rows.host = due_rows.host AND share_rows.day = due_rows.day
LEFT JOIN energy_rows
    ON energy_rows.host = due_rows.host AND energy_rows.day = due_rows.day
LEFT JOIN idle_rows
    ON idle_rows.host = due_rows.host AND idle_rows.day = due_rows.day
LEFT JOIN activity_rows
    ON activity_rows.host = due_rows.host AND activity_rows.day = due_rows.day
LEFT JOIN streak_rows
    ON streak_rows.host = due_rows.host AND streak_rows.day = due_rows.day
LEFT JOIN process_rows
    ON process_rows.host = due_rows.host AND process_rows.day = due_rows.day
LEFT JOIN size_rows
    ON size_rows.host = due_rows.host AND size_rows.day = due_rows.day
LEFT JOIN health_rows
    ON health_rows.host = due_rows.host AND health_rows.day = due_rows.day
-- Hours that were counted again meanwhile are added up the next time.
WHERE due_rows.is_kept
    OR day_rows.hour_marks = due_rows.marks
    AND day_rows.least_fingerprint = due_rows.fingerprint
    AND day_rows.largest_fingerprint = due_rows.fingerprint
COMMENT 'Due days, added up'
