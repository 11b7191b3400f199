-- One row is one process on a card in one tick with a time in (since_ms, until_ms]: its state, and every value that it
-- came with.
CREATE OR REPLACE VIEW gua_report.explain_processes $ON_CLUSTER
$DEFINER
AS
SELECT
    toUnixTimestamp64Milli(states.ts) AS ts_ms,
    states.pid AS pid,
    nullIf(toUnixTimestamp64Milli(states.created), 0) AS created_ms,
    states.owner AS owner,
    ticks.uid AS uid,
    states.program AS program,
    states.type AS type,
    states.duration_ms AS duration_ms,
    states.gpu_time_ms AS gpu_time_ms,
    states.memory_bytes AS memory_bytes,
    states.utilization AS utilization,
    states.container_id AS container_id,
    states.pod_uid AS pod_uid,
    states.slurm_job_id AS slurm_job_id,
    states.systemd_unit AS systemd_unit,
    toNullable(toString(ticks.workload_kind)) AS workload_kind,
    toNullable(toString(ticks.workload_model)) AS workload_model,
    states.state AS state
FROM
(
    SELECT *
    FROM gua.process_states
    WHERE host = {host:String}
        AND gpu = {gpu:String}
        AND ${IN_WINDOW}
) AS states
INNER JOIN
(
    SELECT
        ts,
        pid,
        created,
        uid,
        workload_kind,
        workload_model
    FROM gua.process_ticks FINAL
    WHERE host = {host:String}
        AND gpu = {gpu:String}
        AND ${IN_WINDOW}
) AS ticks
    ON ticks.ts = states.ts AND ticks.pid = states.pid AND ticks.created = states.created
ORDER BY
    ts_ms,
    pid,
    created_ms
