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
            AND toStartOfDay(hour) IN (SELECT day FROM due_rows)
            AND (host, toStartOfDay(hour)) IN (
                SELECT
                    host,
                    day
                FROM due_rows
            )
    ),
    day_rows AS
    (
        SELECT
            host,
            day,
            sum(marks) AS hour_marks,
            min(fingerprint) AS least_fingerprint,
            max(fingerprint) AS largest_fingerprint,
            min(first_ms) AS day_first_ms,
            -- Of each hour by state, in its place of the day.
            sumForEach(arrayConcat(
                arrayWithConstant(toHour(hour) * 4, toUInt64(0)),
                arrayMap(
                    place -> toUInt64(quarter_ticks[place])
                        + quarter_ticks[place + 4]
                        + quarter_ticks[place + 8]
                        + quarter_ticks[place + 12],
                    [1, 2, 3, 4]
                ),
                arrayWithConstant(92 - toHour(hour) * 4, toUInt64(0))
            )) AS ticks_of,
            sumForEach(arrayConcat(
                arrayWithConstant(toHour(hour) * 4, toUInt64(0)),
                arrayMap(
                    place -> quarter_gpu_time_ms[place]
                        + quarter_gpu_time_ms[place + 4]
                        + quarter_gpu_time_ms[place + 8]
                        + quarter_gpu_time_ms[place + 12],
                    [1, 2, 3, 4]
                ),
                arrayWithConstant(92 - toHour(hour) * 4, toUInt64(0))
            )) AS gpu_time_of
        FROM hours
        GROUP BY
            host,
            day
    ),
    card_rows AS
    (
        SELECT
            host,
            day,
            CAST(
                arraySort(groupArray((
                    gpu,
                    card_interval_ms,
                    card_starts_ms,
                    card_ends_ms,
                    card_active_ticks,
                    card_idle_held_ticks,
                    card_truly_idle_ticks,
                    card_unknown_ticks,
                    card_active_gpu_time_ms,
                    card_idle_held_gpu_time_ms,
                    card_truly_idle_gpu_time_ms,
                    card_unknown_gpu_time_ms,
                    card_active_ms,
                    card_idle_held_ms,
                    card_truly_idle_ms,
                    card_unknown_ms
                ))),
                'Array(Tuple(
                    gpu LowCardinality(String),
                    interval_ms UInt32,
                    starts_ms Array(Int64),
                    ends_ms Array(Int64),
                    active_ticks UInt32,
                    idle_held_ticks UInt32,
                    truly_idle_ticks UInt32,
                    unknown_ticks UInt32,
                    active_gpu_time_ms UInt64,
                    idle_held_gpu_time_ms UInt64,
                    truly_idle_gpu_time_ms UInt64,
                    unknown_gpu_time_ms UInt64,
                    active_ms UInt64,
                    idle_held_ms UInt64,
                    truly_idle_ms UInt64,
                    unknown_ms UInt64
                ))'
            ) AS each,
            arrayUniq(each.interval_ms, each.starts_ms, each.ends_ms) = 1 AS are_alike
        FROM
        (
            -- Observed stretches do not overlap, so starts and ends may be sorted apart. Holes of up to one interval are closed.
            SELECT
                host,
                day,
                hour_gpu AS gpu,
                max(hour_interval_ms) AS card_interval_ms,
                arraySort(groupArrayArray(hour_starts_ms)) AS every_start,
                arraySort(groupArrayArray(hour_ends_ms)) AS every_end,
                -- From one array beside the other: what a lambda takes from outside is copied for each element.
                arrayPushFront(
                    arrayFilter((start, end) -> start - end > card_interval_ms, arrayPopFront(every_start), arrayPopBack(every_end)),
                    every_start[1]
                ) AS card_starts_ms,
                arrayPushBack(
                    arrayFilter((end, start) -> start - end > card_interval_ms, arrayPopBack(every_end), arrayPopFront(every_start)),
                    every_end[-1]
                ) AS card_ends_ms,
                sum(hour_active_ticks) AS card_active_ticks,
                sum(hour_idle_held_ticks) AS card_idle_held_ticks,
                sum(hour_truly_idle_ticks) AS card_truly_idle_ticks,
                sum(hour_unknown_ticks) AS card_unknown_ticks,
                sum(hour_active_gpu_time_ms) AS card_active_gpu_time_ms,
                sum(hour_idle_held_gpu_time_ms) AS card_idle_held_gpu_time_ms,
                sum(hour_truly_idle_gpu_time_ms) AS card_truly_idle_gpu_time_ms,
                sum(hour_unknown_gpu_time_ms) AS card_unknown_gpu_time_ms,
                sum(hour_active_ms) AS card_active_ms,
                sum(hour_idle_held_ms) AS card_idle_held_ms,
                sum(hour_truly_idle_ms) AS card_truly_idle_ms,
                sum(hour_unknown_ms) AS card_unknown_ms
            FROM
            (
                SELECT
                    *,
                    -- Of an hour in which they are alike they stand there once.
                    if(notEmpty(starts_ms), arrayMap(gpu -> starts_ms, cards.gpu), cards.starts_ms) AS every_starts_ms,
                    if(notEmpty(starts_ms), arrayMap(gpu -> ends_ms, cards.gpu), cards.ends_ms) AS every_ends_ms
                FROM hours
            )
            ARRAY JOIN
                cards.gpu AS hour_gpu,
                cards.interval_ms AS hour_interval_ms,
                every_starts_ms AS hour_starts_ms,
                every_ends_ms AS hour_ends_ms,
                cards.active_ticks AS hour_active_ticks,
                cards.idle_held_ticks AS hour_idle_held_ticks,
                cards.truly_idle_ticks AS hour_truly_idle_ticks,
                cards.unknown_ticks AS hour_unknown_ticks,
                cards.active_gpu_time_ms AS hour_active_gpu_time_ms,
                cards.idle_held_gpu_time_ms AS hour_idle_held_gpu_time_ms,
                cards.truly_idle_gpu_time_ms AS hour_truly_idle_gpu_time_ms,
                cards.unknown_gpu_time_ms AS hour_unknown_gpu_time_ms,
                cards.active_ms AS hour_active_ms,
                cards.idle_held_ms AS hour_idle_held_ms,
                cards.truly_idle_ms AS hour_truly_idle_ms,
                cards.unknown_ms AS hour_unknown_ms
            GROUP BY
                host,
                day,
                gpu
        )
        GROUP BY
            host,
            day
    ),
    unknown_rows AS
    (
        SELECT
            host,
            day,
            CAST(
                arraySort(groupArray((
                    gpu,
                    reason,
                    day_ticks,
                    day_gpu_time_ms,
                    day_duration_ms
                ))),
                'Array(Tuple(
                    gpu LowCardinality(String),
                    reason UInt8,
                    ticks UInt32,
                    gpu_time_ms UInt64,
                    duration_ms UInt64
                ))'
            ) AS each
        FROM
        (
            SELECT
                host,
                day,
                hour_gpu AS gpu,
                hour_reason AS reason,
                sum(hour_ticks) AS day_ticks,
                sum(hour_gpu_time_ms) AS day_gpu_time_ms,
                sum(hour_duration_ms) AS day_duration_ms
            FROM hours
            ARRAY JOIN
                unknowns.gpu AS hour_gpu,
                unknowns.reason AS hour_reason,
                unknowns.ticks AS hour_ticks,
                unknowns.gpu_time_ms AS hour_gpu_time_ms,
                unknowns.duration_ms AS hour_duration_ms
            GROUP BY
                host,
                day,
                gpu,
                reason
        )
        GROUP BY
            host,
            day
    ),
    identity_rows AS
    (
        SELECT
            host,
            day,
            CAST(
                arraySort(groupArray((
                    gpu,
                    owner,
                    program,
                    state,
                    day_gpu_time_ms,
                    day_duration_ms
                ))),
                'Array(Tuple(
                    gpu LowCardinality(String),
                    owner LowCardinality(Nullable(String)),
                    program LowCardinality(Nullable(String)),
                    state UInt8,
                    gpu_time_ms UInt64,
                    duration_ms UInt64
                ))'
            ) AS each
        FROM
        (
            SELECT
                host,
                day,
                hour_gpu AS gpu,
                hour_owner AS owner,
                hour_program AS program,
                hour_state AS state,
                sum(hour_gpu_time_ms) AS day_gpu_time_ms,
                sum(hour_duration_ms) AS day_duration_ms
            FROM hours
            ARRAY JOIN
                identities.gpu AS hour_gpu,
                identities.owner AS hour_owner,
                identities.program AS hour_program,
                identities.state AS hour_state,
                identities.gpu_time_ms AS hour_gpu_time_ms,
                identities.duration_ms AS hour_duration_ms
            GROUP BY
                host,
                day,
                gpu,
                owner,
                program,
                state
        )
        GROUP BY
            host,
            day
    ),
    share_rows AS
    (
        SELECT
            host,
            day,
            CAST(
                arraySort(groupArray((
                    hour_gpu,
                    hour_start_ms,
                    hour_end_ms,
                    hour_duration_ms,
                    hour_gpu_time_ms
                ))),
                'Array(Tuple(
                    gpu LowCardinality(String),
                    start_ms Int64,
                    end_ms Int64,
                    duration_ms UInt64,
                    gpu_time_ms UInt64
                ))'
            ) AS each
        FROM hours
        ARRAY JOIN
            shares.gpu AS hour_gpu,
            shares.start_ms AS hour_start_ms,
            shares.end_ms AS hour_end_ms,
            shares.duration_ms AS hour_duration_ms,
            shares.gpu_time_ms AS hour_gpu_time_ms
        GROUP BY
            host,
            day
    ),
    energy_rows AS
    (
        SELECT
            host,
            day,
            CAST(
                arraySort(groupArray((
                    gpu,
                    state,
                    day_measured_mj,
                    day_measured_ms,
                    day_estimated_mj,
                    day_estimated_ms,
                    day_unknown_ms
                ))),
                'Array(Tuple(
                    gpu LowCardinality(String),
                    state UInt8,
                    measured_mj UInt64,
                    measured_ms UInt64,
                    estimated_mj UInt64,
                    estimated_ms UInt64,
                    unknown_ms UInt64
                ))'
            ) AS each
        FROM
        (
            SELECT
                host,
                day,
                each_energy.1 AS gpu,
                each_energy.2 AS state,
                sum(each_energy.3) AS day_measured_mj,
                sum(each_energy.4) AS day_measured_ms,
                sum(each_energy.5) AS day_estimated_mj,
                sum(each_energy.6) AS day_estimated_ms,
                sum(each_energy.7) AS day_unknown_ms
            FROM
            (
                SELECT
                    host,
                    day,
                    -- Hours that were counted before energy was know the time in each state alone.
                    arrayJoin(CAST(
                        if(
                            notEmpty(energies.gpu),
                            arrayZip(
                                energies.gpu,
                                energies.state,
                                energies.measured_mj,
                                energies.measured_ms,
                                energies.estimated_mj,
                                energies.estimated_ms,
                                energies.unknown_ms
                            ),
                            arrayFilter(
                                energy -> energy.7 > 0,
                                arrayFlatten(arrayMap(
                                    (gpu, active_ms, idle_held_ms, truly_idle_ms, unknown_ms) -> arrayMap(
                                        (state, ms) -> (gpu, state, toUInt64(0), toUInt64(0), toUInt64(0), toUInt64(0), ms),
                                        [ACTIVE, IDLE_HELD, TRULY_IDLE, UNKNOWN],
                                        [active_ms, idle_held_ms, truly_idle_ms, unknown_ms]
                                    ),
                                    cards.gpu,
                                    cards.active_ms,
                                    cards.idle_held_ms,
                                    cards.truly_idle_ms,
                                    cards.unknown_ms
                                ))
                            )
                        ),
                        'Array(Tuple(LowCardinality(String), UInt8, UInt64, UInt64, UInt64, UInt64, UInt64))'
                    )) AS each_energy
                FROM hours
            )
            GROUP BY
                host,
                day,
                gpu,
                state
        )
        GROUP BY
            host,
            day
    ),
    idle_rows AS
    (
        SELECT
            host,
            day,
            CAST(
                arraySort(groupArray((
                    gpu,
                    state,
                    day_sampled_us,
                    day_idle_us,
                    day_powered_us,
                    day_energy_mj
                ))),
                'Array(Tuple(
                    gpu LowCardinality(String),
                    state UInt8,
                    sampled_us UInt64,
                    idle_us UInt64,
                    powered_us UInt64,
                    energy_mj UInt64
                ))'
            ) AS each
        FROM
        (
            SELECT
                host,
                day,
                hour_gpu AS gpu,
                hour_state AS state,
                sum(hour_sampled_us) AS day_sampled_us,
                sum(hour_idle_us) AS day_idle_us,
                sum(hour_powered_us) AS day_powered_us,
                sum(hour_energy_mj) AS day_energy_mj
            FROM hours
            ARRAY JOIN
                idle_times.gpu AS hour_gpu,
                idle_times.state AS hour_state,
                idle_times.sampled_us AS hour_sampled_us,
                idle_times.idle_us AS hour_idle_us,
                idle_times.powered_us AS hour_powered_us,
                idle_times.energy_mj AS hour_energy_mj
            GROUP BY
                host,
                day,
                gpu,
                state
        )
        GROUP BY
            host,
            day
    ),
    activity_rows AS
    (
        SELECT
            host,
            day,
            CAST(
                arraySort(groupArray((
                    gpu,
                    metric,
                    day_told_us,
                    day_weighted,
                    day_low_us
                ))),
                'Array(Tuple(
                    gpu LowCardinality(String),
                    metric UInt8,
                    told_us UInt64,
                    weighted UInt64,
                    low_us UInt64
                ))'
            ) AS each
        FROM
        (
            SELECT
                host,
                day,
                hour_gpu AS gpu,
                hour_metric AS metric,
                sum(hour_told_us) AS day_told_us,
                sum(hour_weighted) AS day_weighted,
                sum(hour_low_us) AS day_low_us
            FROM hours
            ARRAY JOIN
                activities.gpu AS hour_gpu,
                activities.metric AS hour_metric,
                activities.told_us AS hour_told_us,
                activities.weighted AS hour_weighted,
                activities.low_us AS hour_low_us
            GROUP BY
                host,
                day,
                gpu,
                metric
        )
        GROUP BY
            host,
            day
    ),
    run_rows AS
    (
        -- One row is a run of a card, or (state 0) its idle-held time in an hour of which runs were not kept.
        SELECT
            host,
            day,
            hour_gpu AS gpu,
            toUInt8(hour_state % PARTITIONED) AS state,
            hour_start_ms AS start_ms,
            hour_end_ms AS end_ms,
            hour_first_span_ms AS first_span_ms,
            hour_last_span_ms AS last_span_ms,
            if(hour_duration_ms = 0, toUInt64(hour_end_ms - hour_start_ms), hour_duration_ms) AS observed_ms,
            hour_gpu_time_ms AS gpu_time_ms,
            hour_is_used AS is_used
        FROM hours
        ARRAY JOIN
            card_runs.gpu AS hour_gpu,
            card_runs.state AS hour_state,
            card_runs.start_ms AS hour_start_ms,
            card_runs.end_ms AS hour_end_ms,
            card_runs.first_span_ms AS hour_first_span_ms,
            card_runs.last_span_ms AS hour_last_span_ms,
            card_runs.duration_ms AS hour_duration_ms,
            card_runs.gpu_time_ms AS hour_gpu_time_ms,
            card_runs.is_used AS hour_is_used
        UNION ALL
        SELECT
            host,
            day,
            hour_gpu AS gpu,
            toUInt8(NOT_KEPT) AS state,
            toInt64(0) AS start_ms,
            toInt64(0) AS end_ms,
            toUInt32(0) AS first_span_ms,
            toUInt32(0) AS last_span_ms,
            toUInt64(0) AS observed_ms,
            hour_gpu_time_ms AS gpu_time_ms,
            false AS is_used
        FROM hours
        ARRAY JOIN
            cards.gpu AS hour_gpu,
            cards.idle_held_gpu_time_ms AS hour_gpu_time_ms
        WHERE empty(card_runs.state) AND hour_gpu_time_ms > 0
    ),
    streak_rows AS
    (
        SELECT
            host,
            day,
            CAST(
                arraySort(groupArray((
                    gpu,
                    runs[1].start_ms,
                    runs[1].first_span_ms,
                    runs[-1].end_ms,
                    runs[-1].last_span_ms,
                    is_broken,
                    streaks[1].held_ms,
                    streaks[1].gpu_time_ms,
                    streaks[1].is_used,
                    if(is_broken, streaks[-1].held_ms, 0),
                    if(is_broken, streaks[-1].gpu_time_ms, 0),
                    is_broken AND streaks[-1].is_used,
                    arraySum(arrayMap(streak -> if(streak.is_used, 0, streak.gpu_time_ms), between)),
                    arraySum(arrayMap(streak -> if(streak.is_used OR streak.held_ms < LONG_STREAK_MS, 0, streak.gpu_time_ms), between)),
                    arraySum(arrayMap(streak -> if(streak.is_used, streak.gpu_time_ms, 0), between)),
                    arraySum(arrayMap(streak -> if(streak.is_used AND streak.held_ms >= LONG_STREAK_MS, streak.gpu_time_ms, 0), between)),
                    not_kept_ms,
                    if(length(watched) > 1, watched[-1][1].start_ms, 0),
                    runs[-1].end_ms - arrayMax(run -> if(run.state != UNKNOWN, run.end_ms, toInt64(0)), runs),
                    if(last_held_ms > 0, last_held_ms - runs[1].start_ms, 0),
                    last_held[1].first_span_ms,
                    last_held_ms - arrayMax(run -> if(run.state != UNKNOWN AND run.start_ms < last_held_ms, run.end_ms, toInt64(0)), runs),
                    length(free) > 1 OR runs[1].state IN (ACTIVE, IDLE_HELD),
                    arraySum(last_free.observed_ms),
                    arraySum(last_free.gpu_time_ms),
                    if(last_free_ms > 0, last_free_ms - runs[1].start_ms, 0),
                    last_free[1].first_span_ms,
                    last_free_ms - arrayMax(run -> if(run.state != UNKNOWN AND run.start_ms < last_free_ms, run.end_ms, toInt64(0)), runs)
                ))),
                'Array(Tuple(
                    gpu LowCardinality(String),
                    first_ms Int64,
                    first_span_ms UInt32,
                    last_ms Int64,
                    last_span_ms UInt32,
                    is_broken Bool,
                    head_ms UInt64,
                    head_gpu_time_ms UInt64,
                    head_is_used Bool,
                    tail_ms UInt64,
                    tail_gpu_time_ms UInt64,
                    tail_is_used Bool,
                    never_used_gpu_time_ms UInt64,
                    never_used_long_gpu_time_ms UInt64,
                    low_gpu_time_ms UInt64,
                    low_long_gpu_time_ms UInt64,
                    unknown_gpu_time_ms UInt64,
                    watched_ms Int64,
                    known_ms Int64,
                    held_since_ms Int64,
                    held_span_ms UInt32,
                    held_before_ms Int64,
                    is_free_broken Bool,
                    free_ms UInt64,
                    free_gpu_time_ms UInt64,
                    free_since_ms Int64,
                    free_span_ms UInt32,
                    free_before_ms Int64
                ))'
            ) AS each
        FROM
        (
            SELECT
                host,
                day,
                gpu,
                sumIf(gpu_time_ms, state = NOT_KEPT) AS not_kept_ms,
                arraySort(
                    run -> run.start_ms,
                    CAST(
                        groupArrayIf(
                            (state, start_ms, end_ms, first_span_ms, last_span_ms, observed_ms, gpu_time_ms, is_used),
                            state > NOT_KEPT
                        ),
                        'Array(Tuple(
                            state UInt8,
                            start_ms Int64,
                            end_ms Int64,
                            first_span_ms UInt32,
                            last_span_ms UInt32,
                            observed_ms UInt64,
                            gpu_time_ms UInt64,
                            is_used Bool
                        ))'
                    )
                ) AS runs,
                arraySplit(
                    (run, before) -> run.state IN (ACTIVE, TRULY_IDLE) OR ${GAP_BEFORE_RUN},
                    runs,
                    arrayResize(arrayPushFront(arrayPopBack(runs), runs[1]), length(runs))
                ) AS held,
                arrayMap(
                    streak -> (
                        arraySum(run -> if(run.state = IDLE_HELD, run.observed_ms, 0), streak),
                        arraySum(run -> if(run.state = IDLE_HELD, run.gpu_time_ms, 0), streak),
                        arrayExists(run -> run.state = IDLE_HELD AND run.is_used, streak)
                    ),
                    held
                ) AS split,
                -- What a run that ends streaks begins is no streak of the day before.
                CAST(
                    if(runs[1].state IN (ACTIVE, TRULY_IDLE), arrayPushFront(split, (toUInt64(0), toUInt64(0), toUInt8(0))), split),
                    'Array(Tuple(held_ms UInt64, gpu_time_ms UInt64, is_used Bool))'
                ) AS streaks,
                length(streaks) > 1 AS is_broken,
                arraySlice(streaks, 2, greatest(length(streaks) - 2, 0)) AS between,
                arraySplit(
                    (run, before) -> ${GAP_BEFORE_RUN},
                    runs,
                    arrayResize(arrayPushFront(arrayPopBack(runs), runs[1]), length(runs))
                ) AS watched,
                arraySplit(
                    (run, before) -> run.state IN (ACTIVE, IDLE_HELD) OR ${GAP_BEFORE_RUN},
                    runs,
                    arrayResize(arrayPushFront(arrayPopBack(runs), runs[1]), length(runs))
                ) AS free,
                -- Of the last streak that may go on over midnight, what is of its state.
                arrayFilter(run -> run.state = IDLE_HELD, held[-1]) AS last_held,
                last_held[1].start_ms AS last_held_ms,
                arrayFilter(run -> run.state = TRULY_IDLE, free[-1]) AS last_free,
                last_free[1].start_ms AS last_free_ms
            FROM run_rows
            GROUP BY
                host,
                day,
                gpu
        )
        GROUP BY
            host,
            day
    ),
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
    process_rows.each.held_known_ms AS `processes.held_known_ms`
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
-- Hours that were counted again meanwhile are added up the next time.
WHERE due_rows.is_kept
    OR day_rows.hour_marks = due_rows.marks
    AND day_rows.least_fingerprint = due_rows.fingerprint
    AND day_rows.largest_fingerprint = due_rows.fingerprint
COMMENT 'Due days, added up'
