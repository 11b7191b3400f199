-- One row is one row of gua.host_hours as it should be written: the due hours, made from their ticks.
-- Told its columns, the engine makes the view without planning it, which takes longer than all the other views do.
CREATE OR REPLACE VIEW gua_report.counted_hours $ON_CLUSTER
$COLUMNS_OF 02_host_hours
$DEFINER
AS
WITH
    ${STATES},
    ${USES},
    -- Asked for once, before any tick is read: what arrives from then on leaves the hour due.
    (
        SELECT CAST(
            groupArray((host, hour, marks)),
            'Array(Tuple(host LowCardinality(String), hour DateTime(\'UTC\'), marks UInt64))'
        )
        FROM gua_report.due_hours
    ) AS due,
    (SELECT fingerprint FROM gua_report.rules_fingerprint) AS rules,
    ${ACTIVE_FROM},
    due_rows AS
    (
        SELECT
            each.host AS host,
            each.hour AS hour,
            each.marks AS marks
        FROM (SELECT arrayJoin(due) AS each)
    ),
    spans AS
    (
        SELECT
            host,
            gpu,
            ${TICK_HOUR_START} AS hour,
            toUnixTimestamp64Milli(ts) AS end_ms,
            end_ms - duration_ms AS inside_since_ms,
            end_ms AS inside_until_ms,
            toInt64(duration_ms) AS inside_ms,
            1. AS inside_part,
            toUInt64(gpu_time_ms) * 1000 AS gpu_us,
            interval_ms,
            energy_mj,
            power_mw,
            ifNull(largest_utilization > 0, false) AS is_used,
            is_partitioned,
            ${IDLE_TIME},
            ifNull(idle_energy_mj, 0) AS idle_mj,
            sm_utilization,
            sm_occupancy,
            tensor_utilization,
            memory_bandwidth_utilization,
            ${STATE_CODE} AS state_code
        FROM gua.card_states${LOCAL}
        WHERE ${TICK_HOUR} IN (SELECT intDiv(toUnixTimestamp(hour), 3600) FROM due_rows)
            AND (host, hour) IN (
                SELECT
                    host,
                    hour
                FROM due_rows
            )
            AND duration_ms > 0
    ),
    processes AS
    (
        SELECT *
        FROM gua.process_ticks${LOCAL} FINAL
        WHERE ${TICK_HOUR} IN (SELECT intDiv(toUnixTimestamp(hour), 3600) FROM due_rows)
            AND (host, ${TICK_HOUR_START}) IN (
                SELECT
                    host,
                    hour
                FROM due_rows
            )
            AND gpu_time_ms IS NOT NULL
    ),
    -- Of most stores none: there the cards are not read once more.
    (
        SELECT CAST(
            groupUniqArray((host, ${TICK_HOUR_START})),
            'Array(Tuple(host LowCardinality(String), hour DateTime(\'UTC\')))'
        )
        FROM gua.card_ticks${LOCAL}
        WHERE ${TICK_HOUR} IN (SELECT intDiv(toUnixTimestamp(hour), 3600) FROM due_rows)
            AND allocation IS NOT NULL
    ) AS looked_hours,
    looked_at AS
    (
        SELECT
            host,
            gpu,
            ts,
            toUnixTimestamp64Milli(ts) AS end_ms,
            end_ms - duration_ms AS start_ms,
            start_ms AS inside_since_ms,
            end_ms AS inside_until_ms,
            toUInt64(gpu_time_ms) * 1000 AS gpu_us,
            gpu_time_ms,
            unallocated_gpu_time_ms,
            ${STATE_CODE} AS state_code
        FROM gua.card_states${LOCAL}
        WHERE ${TICK_HOUR} IN (SELECT intDiv(toUnixTimestamp(tupleElement(arrayJoin(looked_hours), 2)), 3600))
            AND (host, ${TICK_HOUR_START}) IN (
                SELECT
                    host,
                    hour
                FROM due_rows
            )
            AND allocation IS NOT NULL
            AND duration_ms > 0
    ),
    allocations AS
    (
        SELECT *
        FROM gua.allocation_ticks${LOCAL} FINAL
        WHERE ${TICK_HOUR} IN (SELECT intDiv(toUnixTimestamp(tupleElement(arrayJoin(looked_hours), 2)), 3600))
            AND (host, ${TICK_HOUR_START}) IN (
                SELECT
                    host,
                    hour
                FROM due_rows
            )
    ),
    source_rows AS
    (
        SELECT
            host,
            hour,
            min(since_ms) AS first_ms,
            CAST(
                arraySort(groupArray((source, ok_ms, failed_ms, last_ms, last_failed_ms, newest_reason))),
                'Array(Tuple(
                    source LowCardinality(String),
                    ok_ms UInt64,
                    failed_ms UInt64,
                    last_ms Int64,
                    last_failed_ms Int64,
                    reason LowCardinality(Nullable(String))
                ))'
            ) AS each
        FROM
        (
            SELECT
                host,
                ${TICK_HOUR_START} AS hour,
                source,
                min(toUnixTimestamp64Milli(ts) - assumeNotNull(duration_ms)) AS since_ms,
                sumIf(assumeNotNull(duration_ms), ${SOURCE_IS_OK}) AS ok_ms,
                sumIf(assumeNotNull(duration_ms), NOT ${SOURCE_IS_OK}) AS failed_ms,
                max(toUnixTimestamp64Milli(ts)) AS last_ms,
                maxIf(toUnixTimestamp64Milli(ts), NOT ${SOURCE_IS_OK}) AS last_failed_ms,
                argMaxIf(reason, ts, NOT ${SOURCE_IS_OK}) AS newest_reason
            FROM gua.allocation_source_ticks${LOCAL} FINAL
            WHERE ${TICK_HOUR} IN (SELECT intDiv(toUnixTimestamp(hour), 3600) FROM due_rows)
                AND (host, ${TICK_HOUR_START}) IN (
                    SELECT
                        host,
                        hour
                    FROM due_rows
                )
                AND duration_ms > 0
            GROUP BY
                host,
                hour,
                source
        )
        GROUP BY
            host,
            hour
    ),
${HOUR_STATES},
${USE_TICKS},
${USE_RUN_ROWS},
    use_rows AS
    (
        SELECT
            host,
            hour,
            CAST(
                arraySort(groupArray((
                    gpu,
                    source,
                    allocation_id,
                    owner,
                    run_use,
                    run_is_shared,
                    run_start_ms,
                    run_end_ms,
                    run_first_span_ms,
                    run_last_span_ms,
                    run_ms,
                    intDiv(run_gpu_us, 1000)
                ))),
                'Array(Tuple(
                    gpu LowCardinality(String),
                    source LowCardinality(String),
                    allocation_id LowCardinality(String),
                    owner LowCardinality(Nullable(String)),
                    use UInt8,
                    is_shared Bool,
                    start_ms Int64,
                    end_ms Int64,
                    first_span_ms UInt32,
                    last_span_ms UInt32,
                    duration_ms UInt64,
                    gpu_time_ms UInt64
                ))'
            ) AS each
        FROM use_run_rows
        GROUP BY
            host,
            hour
    ),
${CARD_RUN_ROWS},
${PROCESS_RUN_ROWS},
${TOLD_ROWS},
    card_rows AS
    (
        SELECT
            host,
            hour,
            arraySort(
                card -> card.gpu,
                CAST(
                    groupArray((
                        gpu,
                        toUInt32(card_interval_ms),
                        card_starts_ms,
                        card_ends_ms,
                        active_ticks,
                        idle_held_ticks,
                        truly_idle_ticks,
                        unknown_ticks,
                        intDiv(active_gpu_us, 1000),
                        intDiv(idle_held_gpu_us, 1000),
                        intDiv(truly_idle_gpu_us, 1000),
                        intDiv(unknown_gpu_us, 1000),
                        active_ms,
                        idle_held_ms,
                        truly_idle_ms,
                        unknown_ms
                    )),
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
                )
            ) AS each,
            arrayUniq(each.interval_ms, each.starts_ms, each.ends_ms) = 1 AS are_alike,
            CAST(
                arraySort(groupArrayArray(arrayMap(
                    why -> (gpu, why.code, why.ticks, intDiv(why.gpu_us, 1000), why.observed_ms),
                    reasons
                ))),
                'Array(Tuple(
                    gpu LowCardinality(String),
                    reason UInt8,
                    ticks UInt32,
                    gpu_time_ms UInt64,
                    duration_ms UInt64
                ))'
            ) AS unknowns,
            CAST(
                arraySort(groupArrayArray(arrayMap(
                    piece -> (gpu, piece.start_ms, piece.end_ms, piece.observed_ms, intDiv(piece.gpu_us, 1000)),
                    pieces
                ))),
                'Array(Tuple(
                    gpu LowCardinality(String),
                    start_ms Int64,
                    end_ms Int64,
                    duration_ms UInt64,
                    gpu_time_ms UInt64
                ))'
            ) AS card_shares,
            CAST(
                arraySort(groupArrayArray(arrayMap(
                    energy -> (
                        gpu,
                        energy.state,
                        energy.measured_mj,
                        energy.measured_ms,
                        energy.estimated_mj,
                        energy.estimated_ms,
                        energy.unknown_ms
                    ),
                    energies
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
            ) AS card_energies,
            CAST(
                arraySort(groupArrayArray(arrayMap(
                    idle -> (gpu, idle.state, idle.sampled_us, idle.idle_us, idle.powered_us, idle.energy_mj),
                    idle_times
                ))),
                'Array(Tuple(
                    gpu LowCardinality(String),
                    state UInt8,
                    sampled_us UInt64,
                    idle_us UInt64,
                    powered_us UInt64,
                    energy_mj UInt64
                ))'
            ) AS card_idle_times,
            CAST(
                arraySort(groupArrayArray(arrayMap(
                    part -> (gpu, part.metric, part.told_us, part.weighted, part.low_us),
                    activities
                ))),
                'Array(Tuple(
                    gpu LowCardinality(String),
                    metric UInt8,
                    told_us UInt64,
                    weighted UInt64,
                    low_us UInt64
                ))'
            ) AS card_activities
        FROM card_hour
        GROUP BY
            host,
            hour
    ),
    quarter_rows AS
    (
        SELECT
            host,
            hour,
            arrayMap(
                place -> toUInt32(arraySum(arrayMap(each -> if(each.place = place, each.ticks, 0), sums))),
                range(16)
            ) AS ticks_of,
            arrayMap(
                place -> toUInt64(arraySum(arrayMap(each -> if(each.place = place, each.gpu_time_ms, 0), sums))),
                range(16)
            ) AS gpu_time_of
        FROM
        (
            SELECT
                host,
                hour,
                CAST(
                    groupArray((quarter_and_state, place_ticks, place_gpu_ms)),
                    'Array(Tuple(place UInt8, ticks UInt64, gpu_time_ms UInt64))'
                ) AS sums
            FROM
            (
                SELECT
                    host,
                    hour,
                    intDiv(intDiv(end_ms - 1, 60000) % 60, 15) * 4 + least(state_code, UNKNOWN) - 1 AS quarter_and_state,
                    count() AS place_ticks,
                    intDiv(sum(gpu_us), 1000) AS place_gpu_ms
                FROM spans
                GROUP BY
                    host,
                    hour,
                    quarter_and_state
            )
            GROUP BY
                host,
                hour
        )
    ),
    run_rows AS
    (
        SELECT
            host,
            hour,
            CAST(
                arraySort(groupArray((
                    gpu,
                    run_state,
                    run_start_ms,
                    run_end_ms,
                    run_first_span_ms,
                    run_last_span_ms,
                    ${KEPT_RUN_MS},
                    intDiv(run_gpu_us, 1000),
                    run_is_used
                ))),
                'Array(Tuple(
                    gpu LowCardinality(String),
                    state UInt8,
                    start_ms Int64,
                    end_ms Int64,
                    first_span_ms UInt32,
                    last_span_ms UInt32,
                    duration_ms UInt64,
                    gpu_time_ms UInt64,
                    is_used Bool
                ))'
            ) AS each
        FROM card_run_rows
        GROUP BY
            host,
            hour
    ),
    identity_rows AS
    (
        SELECT
            host,
            hour,
            -- Nobody holds a truly-idle card.
            arrayFilter(
                held -> held.state != TRULY_IDLE,
                CAST(
                    arraySort(groupArray((gpu, owner, program, run_card_state, gpu_ms, covered))),
                    'Array(Tuple(
                        gpu LowCardinality(String),
                        owner LowCardinality(Nullable(String)),
                        program LowCardinality(Nullable(String)),
                        state UInt8,
                        gpu_time_ms UInt64,
                        duration_ms UInt64
                    ))'
                )
            ) AS each,
            CAST(
                arraySort(groupArrayArray(runs)),
                'Array(Tuple(
                    gpu LowCardinality(String),
                    pid UInt32,
                    created_ms Int64,
                    owner LowCardinality(Nullable(String)),
                    program LowCardinality(Nullable(String)),
                    container_id LowCardinality(Nullable(String)),
                    pod_uid LowCardinality(Nullable(String)),
                    slurm_job_id LowCardinality(Nullable(String)),
                    systemd_unit LowCardinality(Nullable(String)),
                    state UInt8,
                    card_state UInt8,
                    start_ms Int64,
                    end_ms Int64,
                    first_span_ms UInt32,
                    last_span_ms UInt32,
                    duration_ms UInt64,
                    gpu_time_ms UInt64,
                    memory_kib_ms UInt64,
                    memory_known_ms UInt64,
                    memory_bytes Nullable(UInt64)
                ))'
            ) AS each_run
        FROM
        (
            SELECT
                host,
                hour,
                gpu,
                owner,
                program,
                run_card_state,
                intDiv(sum(run_gpu_us), 1000) AS gpu_ms,
                sum(run_ms) AS covered,
                groupArray((
                    gpu,
                    pid,
                    created_ms,
                    owner,
                    program,
                    container_id,
                    pod_uid,
                    slurm_job_id,
                    systemd_unit,
                    run_state,
                    run_card_state,
                    run_start_ms,
                    run_end_ms,
                    run_first_span_ms,
                    run_last_span_ms,
                    ${KEPT_RUN_MS},
                    intDiv(run_gpu_us, 1000),
                    run_kib_ms,
                    run_known_ms,
                    run_memory_bytes
                )) AS runs
            FROM process_run_rows
            GROUP BY
                host,
                hour,
                gpu,
                owner,
                program,
                run_card_state
        )
        GROUP BY
            host,
            hour
    )
SELECT
    due_rows.host AS host,
    due_rows.hour AS hour,
    due_rows.marks AS marks,
    assumeNotNull(rules) AS fingerprint,
    now64(3, 'UTC') AS written,
    least(
        if(
            empty(card_rows.each.gpu),
            toInt64(9000000000000000000),
            arrayMin(arrayMap(starts -> starts[1], card_rows.each.starts_ms))
        ),
        if(empty(source_rows.each.source), toInt64(9000000000000000000), source_rows.first_ms)
    ) AS first_ms,
    cityHash64(card_rows.each.gpu) AS cards_key,
    arrayMax(card_rows.each.interval_ms) AS interval_ms,
    if(card_rows.are_alike, card_rows.each.starts_ms[1], []) AS starts_ms,
    if(card_rows.are_alike, card_rows.each.ends_ms[1], []) AS ends_ms,
    quarter_rows.ticks_of AS quarter_ticks,
    quarter_rows.gpu_time_of AS quarter_gpu_time_ms,
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
    card_rows.unknowns.gpu AS `unknowns.gpu`,
    card_rows.unknowns.reason AS `unknowns.reason`,
    card_rows.unknowns.ticks AS `unknowns.ticks`,
    card_rows.unknowns.gpu_time_ms AS `unknowns.gpu_time_ms`,
    card_rows.unknowns.duration_ms AS `unknowns.duration_ms`,
    identity_rows.each.gpu AS `identities.gpu`,
    identity_rows.each.owner AS `identities.owner`,
    identity_rows.each.program AS `identities.program`,
    identity_rows.each.state AS `identities.state`,
    identity_rows.each.gpu_time_ms AS `identities.gpu_time_ms`,
    identity_rows.each.duration_ms AS `identities.duration_ms`,
    card_rows.card_shares.gpu AS `shares.gpu`,
    card_rows.card_shares.start_ms AS `shares.start_ms`,
    card_rows.card_shares.end_ms AS `shares.end_ms`,
    card_rows.card_shares.duration_ms AS `shares.duration_ms`,
    card_rows.card_shares.gpu_time_ms AS `shares.gpu_time_ms`,
    card_rows.card_energies.gpu AS `energies.gpu`,
    card_rows.card_energies.state AS `energies.state`,
    card_rows.card_energies.measured_mj AS `energies.measured_mj`,
    card_rows.card_energies.measured_ms AS `energies.measured_ms`,
    card_rows.card_energies.estimated_mj AS `energies.estimated_mj`,
    card_rows.card_energies.estimated_ms AS `energies.estimated_ms`,
    card_rows.card_energies.unknown_ms AS `energies.unknown_ms`,
    run_rows.each.gpu AS `card_runs.gpu`,
    run_rows.each.state AS `card_runs.state`,
    run_rows.each.start_ms AS `card_runs.start_ms`,
    run_rows.each.end_ms AS `card_runs.end_ms`,
    run_rows.each.first_span_ms AS `card_runs.first_span_ms`,
    run_rows.each.last_span_ms AS `card_runs.last_span_ms`,
    run_rows.each.duration_ms AS `card_runs.duration_ms`,
    run_rows.each.gpu_time_ms AS `card_runs.gpu_time_ms`,
    run_rows.each.is_used AS `card_runs.is_used`,
    identity_rows.each_run.gpu AS `process_runs.gpu`,
    identity_rows.each_run.pid AS `process_runs.pid`,
    identity_rows.each_run.created_ms AS `process_runs.created_ms`,
    identity_rows.each_run.owner AS `process_runs.owner`,
    identity_rows.each_run.program AS `process_runs.program`,
    identity_rows.each_run.container_id AS `process_runs.container_id`,
    identity_rows.each_run.pod_uid AS `process_runs.pod_uid`,
    identity_rows.each_run.slurm_job_id AS `process_runs.slurm_job_id`,
    identity_rows.each_run.systemd_unit AS `process_runs.systemd_unit`,
    identity_rows.each_run.state AS `process_runs.state`,
    identity_rows.each_run.card_state AS `process_runs.card_state`,
    identity_rows.each_run.start_ms AS `process_runs.start_ms`,
    identity_rows.each_run.end_ms AS `process_runs.end_ms`,
    identity_rows.each_run.first_span_ms AS `process_runs.first_span_ms`,
    identity_rows.each_run.last_span_ms AS `process_runs.last_span_ms`,
    identity_rows.each_run.duration_ms AS `process_runs.duration_ms`,
    identity_rows.each_run.gpu_time_ms AS `process_runs.gpu_time_ms`,
    identity_rows.each_run.memory_kib_ms AS `process_runs.memory_kib_ms`,
    identity_rows.each_run.memory_known_ms AS `process_runs.memory_known_ms`,
    identity_rows.each_run.memory_bytes AS `process_runs.memory_bytes`,
    use_rows.each.gpu AS `use_runs.gpu`,
    use_rows.each.source AS `use_runs.source`,
    use_rows.each.allocation_id AS `use_runs.allocation_id`,
    use_rows.each.owner AS `use_runs.owner`,
    use_rows.each.use AS `use_runs.use`,
    use_rows.each.is_shared AS `use_runs.is_shared`,
    use_rows.each.start_ms AS `use_runs.start_ms`,
    use_rows.each.end_ms AS `use_runs.end_ms`,
    use_rows.each.first_span_ms AS `use_runs.first_span_ms`,
    use_rows.each.last_span_ms AS `use_runs.last_span_ms`,
    use_rows.each.duration_ms AS `use_runs.duration_ms`,
    use_rows.each.gpu_time_ms AS `use_runs.gpu_time_ms`,
    source_rows.each.source AS `allocation_sources.source`,
    source_rows.each.ok_ms AS `allocation_sources.ok_ms`,
    source_rows.each.failed_ms AS `allocation_sources.failed_ms`,
    source_rows.each.last_ms AS `allocation_sources.last_ms`,
    source_rows.each.last_failed_ms AS `allocation_sources.last_failed_ms`,
    source_rows.each.reason AS `allocation_sources.reason`,
    card_rows.card_idle_times.gpu AS `idle_times.gpu`,
    card_rows.card_idle_times.state AS `idle_times.state`,
    card_rows.card_idle_times.sampled_us AS `idle_times.sampled_us`,
    card_rows.card_idle_times.idle_us AS `idle_times.idle_us`,
    card_rows.card_idle_times.powered_us AS `idle_times.powered_us`,
    card_rows.card_idle_times.energy_mj AS `idle_times.energy_mj`,
    card_rows.card_activities.gpu AS `activities.gpu`,
    card_rows.card_activities.metric AS `activities.metric`,
    card_rows.card_activities.told_us AS `activities.told_us`,
    card_rows.card_activities.weighted AS `activities.weighted`,
    card_rows.card_activities.low_us AS `activities.low_us`,
    told_rows.card_sizes.gpu AS `sizes.gpu`,
    told_rows.card_sizes.limit_bytes AS `sizes.limit_bytes`,
    told_rows.card_sizes.reserved_bytes AS `sizes.reserved_bytes`,
    told_rows.card_sizes.is_cut AS `sizes.is_cut`,
    told_rows.card_sizes.is_instance AS `sizes.is_instance`,
    told_rows.card_sizes.is_shared AS `sizes.is_shared`,
    told_rows.card_sizes.whole_bytes AS `sizes.whole_bytes`,
    told_rows.card_health.gpu AS `health.gpu`,
    told_rows.card_health.told_ms AS `health.told_ms`,
    told_rows.card_health.heat_ms AS `health.heat_ms`,
    told_rows.card_health.power_cap_ms AS `health.power_cap_ms`,
    told_rows.card_health.hardware_ms AS `health.hardware_ms`,
    told_rows.card_health.slowed_ms AS `health.slowed_ms`,
    told_rows.card_health.xid_errors AS `health.xid_errors`,
    told_rows.card_health.xid AS `health.xid`,
    told_rows.card_health.ecc_errors AS `health.ecc_errors`,
    told_rows.card_health.row_remap AS `health.row_remap`
FROM due_rows
LEFT JOIN card_rows
    ON card_rows.host = due_rows.host AND card_rows.hour = due_rows.hour
LEFT JOIN quarter_rows
    ON quarter_rows.host = due_rows.host AND quarter_rows.hour = due_rows.hour
LEFT JOIN run_rows
    ON run_rows.host = due_rows.host AND run_rows.hour = due_rows.hour
LEFT JOIN identity_rows
    ON identity_rows.host = due_rows.host AND identity_rows.hour = due_rows.hour
LEFT JOIN use_rows
    ON use_rows.host = due_rows.host AND use_rows.hour = due_rows.hour
LEFT JOIN source_rows
    ON source_rows.host = due_rows.host AND source_rows.hour = due_rows.hour
LEFT JOIN told_rows
    ON told_rows.host = due_rows.host AND told_rows.hour = due_rows.hour
COMMENT 'Due hours, counted'
