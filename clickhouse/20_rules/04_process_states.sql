-- One row is one process on one card in one tick with its own state. A process can be idle on an active card.
CREATE OR REPLACE VIEW gua.process_states${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the card is in',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    ts DateTime64(3, 'UTC') COMMENT 'End of the tick',
    pid UInt32 COMMENT 'Process id on the host',
    created DateTime64(3, 'UTC') COMMENT 'When the process started; 1970-01-01 if unknown',
    owner Nullable(String) COMMENT 'User of the process',
    program Nullable(String) COMMENT 'Process name',
    type Nullable(String) COMMENT 'compute, graphics, mps or ignored',
    duration_ms UInt32 COMMENT 'Time that the tick covers [ms]',
    gpu_time_ms Nullable(UInt32) COMMENT 'GPU time attributed to the process; NULL for ignored processes [ms]',
    memory_bytes Nullable(UInt64) COMMENT 'Device memory of the process',
    utilization Nullable(UInt16) COMMENT 'Utilization by the process [1/10,000]',
    container_id Nullable(String) COMMENT 'Container',
    pod_uid Nullable(String) COMMENT 'Kubernetes pod',
    slurm_job_id Nullable(String) COMMENT 'Slurm job',
    systemd_unit Nullable(String) COMMENT 'systemd unit',
    state String COMMENT 'active, idle or unknown',
    workload_kind Nullable(String) COMMENT 'Declared or detected kind of work; NULL: by program name',
    workload_model Nullable(String) COMMENT 'Declared or detected served model'
)
$DEFINER
AS
WITH
    ${STATES},
    ${ACTIVE_FROM}
SELECT
    host,
    gpu,
    ts,
    pid,
    created,
    owner,
    program,
    type,
    assumeNotNull(duration_ms) AS duration_ms,
    gpu_time_ms,
    memory_bytes,
    utilization,
    container_id,
    pod_uid,
    slurm_job_id,
    systemd_unit,
    PROCESS_STATE_NAMES[${PROCESS_STATE}] AS state,
    workload_kind,
    workload_model
FROM gua.process_ticks${LOCAL} AS ticks FINAL
WHERE ticks.duration_ms IS NOT NULL
COMMENT 'Process ticks with their state'
