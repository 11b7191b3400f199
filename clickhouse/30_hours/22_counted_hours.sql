-- One row is one row of gua.host_hours as it should be written: the due hours, made from their ticks.
CREATE OR REPLACE VIEW gua_report.counted_hours $ON_CLUSTER
$DEFINER
AS
WITH
    -- Asked for once, before any tick is read: what arrives from then on leaves the hour due.
    (SELECT groupArray((host, hour, marks)) FROM gua_report.due_hours) AS due,
    (SELECT fingerprint FROM gua_report.rules_fingerprint) AS rules,
    (SELECT toUInt16(round(value * 10000)) FROM gua.rules WHERE key = 'active_utilization') AS active_from,
    due_rows AS
    (
        SELECT one.1 AS host, one.2 AS hour, one.3 AS marks
        FROM (SELECT arrayJoin(due) AS one)
    ),
    spans AS
    (
        SELECT
            host,
            gpu,
            toDateTime(intDiv(toUnixTimestamp64Milli(ts) - 1, 3600000) * 3600, 'UTC') AS hour,
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
            ${STATE_CODE} AS state_code
        FROM gua.card_states${LOCAL}
        WHERE intDiv(toUnixTimestamp64Milli(ts) - 1, 3600000) IN (SELECT intDiv(toUnixTimestamp(hour), 3600) FROM due_rows)
            AND (host, hour) IN (SELECT host, hour FROM due_rows)
            AND duration_ms > 0
    ),
    processes AS
    (
        SELECT *
        FROM gua.process_ticks${LOCAL} FINAL
        WHERE intDiv(toUnixTimestamp64Milli(ts) - 1, 3600000) IN (SELECT intDiv(toUnixTimestamp(hour), 3600) FROM due_rows)
            AND (host, toDateTime(intDiv(toUnixTimestamp64Milli(ts) - 1, 3600000) * 3600, 'UTC')) IN (SELECT host, hour FROM due_rows)
            AND gpu_time_ms IS NOT NULL
    ),
${HOUR_STATES},
${CARD_RUN_ROWS},
${PROCESS_RUN_ROWS},
    card_rows AS
    (
        SELECT
            host,
            hour,
            arraySort(one -> one.1, groupArray((
                gpu,
                toUInt32(card_interval_ms),
                card_starts_ms,
                card_ends_ms,
                (active_ticks, idle_held_ticks, truly_idle_ticks, unknown_ticks),
                (intDiv(active_gpu_us, 1000), intDiv(idle_held_gpu_us, 1000), intDiv(truly_idle_gpu_us, 1000), intDiv(unknown_gpu_us, 1000)),
                (active_ms, idle_held_ms, truly_idle_ms, unknown_ms)
            ))) AS each,
            arrayUniq(each.2, each.3, each.4) = 1 AS are_alike,
            arraySort(groupArrayArray(arrayMap(one -> (gpu, one.1, one.2, intDiv(one.3, 1000), one.4), reasons))) AS whys,
            arraySort(groupArrayArray(arrayMap(one -> (gpu, one.1, one.2, one.3, one.4, one.5, one.6), energies))) AS energy
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
            arrayMap(place -> toUInt32(arraySum(arrayMap(one -> if(one.1 = place, one.2, 0), sums))), range(16)) AS ticks_of,
            arrayMap(place -> toUInt64(arraySum(arrayMap(one -> if(one.1 = place, one.3, 0), sums))), range(16)) AS gpu_time_of
        FROM
        (
            SELECT
                host,
                hour,
                groupArray((place, place_ticks, place_gpu_ms)) AS sums
            FROM
            (
                SELECT
                    host,
                    hour,
                    intDiv(intDiv(end_ms - 1, 60000) % 60, 15) * 4 + least(state_code, 4) - 1 AS place,
                    count() AS place_ticks,
                    intDiv(sum(gpu_us), 1000) AS place_gpu_ms
                FROM spans
                GROUP BY
                    host,
                    hour,
                    place
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
            arraySort(groupArray((gpu, run_state, run_start_ms, run_end_ms, run_first_span_ms, run_last_span_ms, run_ms, intDiv(run_gpu_us, 1000), run_is_used))) AS each
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
            arrayFilter(one -> one.4 != 3, arraySort(groupArray((gpu, owner, program, run_card_state, gpu_ms, covered)))) AS each,
            arraySort(groupArrayArray(runs)) AS each_run
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
                    (owner, program, container_id, pod_uid, slurm_job_id, systemd_unit),
                    run_state,
                    run_card_state,
                    run_start_ms,
                    run_end_ms,
                    run_first_span_ms,
                    run_last_span_ms,
                    run_ms,
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
    rules AS fingerprint,
    now64(3, 'UTC') AS written,
    if(empty(card_rows.each.1), toInt64(9e18), arrayMin(arrayMap(one -> one[1], card_rows.each.3))) AS first_ms,
    cityHash64(card_rows.each.1) AS cards_key,
    arrayMax(card_rows.each.2) AS interval_ms,
    if(card_rows.are_alike, card_rows.each.3[1], []) AS starts_ms,
    if(card_rows.are_alike, card_rows.each.4[1], []) AS ends_ms,
    quarter_rows.ticks_of AS quarter_ticks,
    quarter_rows.gpu_time_of AS quarter_gpu_time_ms,
    card_rows.each.1 AS `cards.gpu`,
    card_rows.each.2 AS `cards.interval_ms`,
    if(card_rows.are_alike, arrayMap(one -> CAST([], 'Array(Int64)'), card_rows.each.3), card_rows.each.3) AS `cards.starts_ms`,
    if(card_rows.are_alike, arrayMap(one -> CAST([], 'Array(Int64)'), card_rows.each.4), card_rows.each.4) AS `cards.ends_ms`,
    card_rows.each.5.1 AS `cards.active_ticks`,
    card_rows.each.5.2 AS `cards.idle_held_ticks`,
    card_rows.each.5.3 AS `cards.truly_idle_ticks`,
    card_rows.each.5.4 AS `cards.unknown_ticks`,
    card_rows.each.6.1 AS `cards.active_gpu_time_ms`,
    card_rows.each.6.2 AS `cards.idle_held_gpu_time_ms`,
    card_rows.each.6.3 AS `cards.truly_idle_gpu_time_ms`,
    card_rows.each.6.4 AS `cards.unknown_gpu_time_ms`,
    card_rows.each.7.1 AS `cards.active_ms`,
    card_rows.each.7.2 AS `cards.idle_held_ms`,
    card_rows.each.7.3 AS `cards.truly_idle_ms`,
    card_rows.each.7.4 AS `cards.unknown_ms`,
    card_rows.whys.1 AS `unknowns.gpu`,
    card_rows.whys.2 AS `unknowns.reason`,
    card_rows.whys.3 AS `unknowns.ticks`,
    card_rows.whys.4 AS `unknowns.gpu_time_ms`,
    card_rows.whys.5 AS `unknowns.duration_ms`,
    identity_rows.each.1 AS `identities.gpu`,
    identity_rows.each.2 AS `identities.owner`,
    identity_rows.each.3 AS `identities.program`,
    identity_rows.each.4 AS `identities.state`,
    identity_rows.each.5 AS `identities.gpu_time_ms`,
    identity_rows.each.6 AS `identities.duration_ms`,
    card_rows.energy.1 AS `energies.gpu`,
    card_rows.energy.2 AS `energies.state`,
    card_rows.energy.3 AS `energies.measured_mj`,
    card_rows.energy.4 AS `energies.measured_ms`,
    card_rows.energy.5 AS `energies.estimated_mj`,
    card_rows.energy.6 AS `energies.estimated_ms`,
    card_rows.energy.7 AS `energies.unknown_ms`,
    run_rows.each.1 AS `card_runs.gpu`,
    run_rows.each.2 AS `card_runs.state`,
    run_rows.each.3 AS `card_runs.start_ms`,
    run_rows.each.4 AS `card_runs.end_ms`,
    run_rows.each.5 AS `card_runs.first_span_ms`,
    run_rows.each.6 AS `card_runs.last_span_ms`,
    run_rows.each.7 AS `card_runs.duration_ms`,
    run_rows.each.8 AS `card_runs.gpu_time_ms`,
    run_rows.each.9 AS `card_runs.is_used`,
    identity_rows.each_run.1 AS `process_runs.gpu`,
    identity_rows.each_run.2 AS `process_runs.pid`,
    identity_rows.each_run.3 AS `process_runs.created_ms`,
    identity_rows.each_run.4.1 AS `process_runs.owner`,
    identity_rows.each_run.4.2 AS `process_runs.program`,
    identity_rows.each_run.4.3 AS `process_runs.container_id`,
    identity_rows.each_run.4.4 AS `process_runs.pod_uid`,
    identity_rows.each_run.4.5 AS `process_runs.slurm_job_id`,
    identity_rows.each_run.4.6 AS `process_runs.systemd_unit`,
    identity_rows.each_run.5 AS `process_runs.state`,
    identity_rows.each_run.6 AS `process_runs.card_state`,
    identity_rows.each_run.7 AS `process_runs.start_ms`,
    identity_rows.each_run.8 AS `process_runs.end_ms`,
    identity_rows.each_run.9 AS `process_runs.first_span_ms`,
    identity_rows.each_run.10 AS `process_runs.last_span_ms`,
    identity_rows.each_run.11 AS `process_runs.duration_ms`,
    identity_rows.each_run.12 AS `process_runs.gpu_time_ms`,
    identity_rows.each_run.13 AS `process_runs.memory_kib_ms`,
    identity_rows.each_run.14 AS `process_runs.memory_known_ms`,
    identity_rows.each_run.15 AS `process_runs.memory_bytes`
FROM due_rows
LEFT JOIN card_rows
    ON card_rows.host = due_rows.host AND card_rows.hour = due_rows.hour
LEFT JOIN quarter_rows
    ON quarter_rows.host = due_rows.host AND quarter_rows.hour = due_rows.hour
LEFT JOIN run_rows
    ON run_rows.host = due_rows.host AND run_rows.hour = due_rows.hour
LEFT JOIN identity_rows
    ON identity_rows.host = due_rows.host AND identity_rows.hour = due_rows.hour
COMMENT 'Due hours, counted'
