-- One row is one process on one card as gua top lists it, at the card's newest tick.
CREATE OR REPLACE VIEW gua_report.top_holders $ON_CLUSTER
$DEFINER
AS
SELECT
    toString(host) AS host,
    toString(gpu) AS gpu,
    gpu_index,
    name,
    age_ms,
    pid,
    nullIf(toUnixTimestamp64Milli(created), 0) AS created_ms,
    owner,
    program,
    type,
    container_id,
    pod_uid,
    slurm_job_id,
    systemd_unit,
    memory_bytes,
    utilization,
    state,
    idle_ms
FROM gua.current_holders
WHERE ${OF_HOSTS}
ORDER BY
    host,
    gpu_index,
    gpu,
    pid
