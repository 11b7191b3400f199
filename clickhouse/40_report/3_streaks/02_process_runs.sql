-- One row is a run of a process on a card in the window: ticks in a row in which neither its own state (1 active, 2 idle, 3 unknown)
-- nor the card's changes, without a hole longer than a tick, within one UTC hour. Of hours of which runs were not kept (state 0)
-- there is one row for each owner and program on a card, over the whole hour.
CREATE OR REPLACE VIEW gua_report.process_runs $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    ${ACTIVE_FROM},
    spans AS
    (
        SELECT *
        FROM gua_report.spans(${TICK_WINDOW})
    ),
    processes AS
    (
        SELECT *
        FROM gua.process_ticks FINAL
        WHERE ${TICK_HOUR} IN {tick_hours:Array(Int64)}
            AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND ${OF_HOSTS}
            AND gpu_time_ms IS NOT NULL
    ),
${PROCESS_RUN_ROWS}
SELECT *
FROM
(
    SELECT
        host,
        gpu,
        hour,
        pid,
        created_ms,
        owner,
        program,
        container_id,
        pod_uid,
        slurm_job_id,
        systemd_unit,
        run_state AS state,
        run_card_state AS card_state,
        run_start_ms AS start_ms,
        run_end_ms AS end_ms,
        run_first_span_ms AS first_span_ms,
        run_last_span_ms AS last_span_ms,
        run_ms AS observed_ms,
        run_gpu_us AS gpu_us,
        run_kib_ms AS kib_ms,
        run_known_ms AS known_ms,
        run_memory_bytes AS memory_bytes
    FROM process_run_rows
    -- ONLY with counted hours
    UNION ALL
    SELECT
        host,
        run_gpu AS gpu,
        hour,
        run_pid AS pid,
        run_created_ms AS created_ms,
        run_owner AS owner,
        run_program AS program,
        run_container_id AS container_id,
        run_pod_uid AS pod_uid,
        run_slurm_job_id AS slurm_job_id,
        run_systemd_unit AS systemd_unit,
        run_state AS state,
        run_card_state AS card_state,
        run_start_ms AS start_ms,
        run_end_ms AS end_ms,
        run_first_span_ms AS first_span_ms,
        run_last_span_ms AS last_span_ms,
        if(run_duration_ms = 0, toUInt64(run_end_ms - run_start_ms), run_duration_ms) AS observed_ms,
        run_gpu_time_ms * 1000 AS gpu_us,
        run_memory_kib_ms AS kib_ms,
        run_memory_known_ms AS known_ms,
        run_memory_bytes AS memory_bytes
    FROM
    (
        SELECT
            host,
            hour,
            process_runs.gpu,
            process_runs.pid,
            process_runs.created_ms,
            process_runs.owner,
            process_runs.program,
            process_runs.container_id,
            process_runs.pod_uid,
            process_runs.slurm_job_id,
            process_runs.systemd_unit,
            process_runs.state,
            process_runs.card_state,
            process_runs.start_ms,
            process_runs.end_ms,
            process_runs.first_span_ms,
            process_runs.last_span_ms,
            process_runs.duration_ms,
            process_runs.gpu_time_ms,
            process_runs.memory_kib_ms,
            process_runs.memory_known_ms,
            process_runs.memory_bytes
        FROM gua.host_hours FINAL
        WHERE ${USED_RUN_HOURS}
    )
    ARRAY JOIN
        process_runs.gpu AS run_gpu,
        process_runs.pid AS run_pid,
        process_runs.created_ms AS run_created_ms,
        process_runs.owner AS run_owner,
        process_runs.program AS run_program,
        process_runs.container_id AS run_container_id,
        process_runs.pod_uid AS run_pod_uid,
        process_runs.slurm_job_id AS run_slurm_job_id,
        process_runs.systemd_unit AS run_systemd_unit,
        process_runs.state AS run_state,
        process_runs.card_state AS run_card_state,
        process_runs.start_ms AS run_start_ms,
        process_runs.end_ms AS run_end_ms,
        process_runs.first_span_ms AS run_first_span_ms,
        process_runs.last_span_ms AS run_last_span_ms,
        process_runs.duration_ms AS run_duration_ms,
        process_runs.gpu_time_ms AS run_gpu_time_ms,
        process_runs.memory_kib_ms AS run_memory_kib_ms,
        process_runs.memory_known_ms AS run_memory_known_ms,
        process_runs.memory_bytes AS run_memory_bytes
    UNION ALL
    SELECT
        host,
        run_gpu AS gpu,
        hour,
        toUInt32(0) AS pid,
        toInt64(0) AS created_ms,
        run_owner AS owner,
        run_program AS program,
        NULL AS container_id,
        NULL AS pod_uid,
        NULL AS slurm_job_id,
        NULL AS systemd_unit,
        toUInt8(NOT_KEPT) AS state,
        run_card_state AS card_state,
        toInt64(toUnixTimestamp(hour)) * 1000 AS start_ms,
        start_ms + 3600000 AS end_ms,
        toUInt32(0) AS first_span_ms,
        toUInt32(0) AS last_span_ms,
        run_duration_ms AS observed_ms,
        run_gpu_time_ms * 1000 AS gpu_us,
        toUInt64(0) AS kib_ms,
        toUInt64(0) AS known_ms,
        NULL AS memory_bytes
    FROM
    (
        SELECT
            host,
            hour,
            identities.gpu,
            identities.owner,
            identities.program,
            identities.state,
            identities.gpu_time_ms,
            identities.duration_ms
        FROM gua.host_hours FINAL
        WHERE ${USED_RUN_HOURS}
            AND empty(card_runs.state)
    )
    ARRAY JOIN
        identities.gpu AS run_gpu,
        identities.owner AS run_owner,
        identities.program AS run_program,
        identities.state AS run_card_state,
        identities.gpu_time_ms AS run_gpu_time_ms,
        identities.duration_ms AS run_duration_ms
    -- END
)
