-- One row is one process on one card at the card's newest tick.
CREATE OR REPLACE VIEW gua_public.current_holders $ON_CLUSTER
(
${CARD_COLUMNS},
    tick_time DateTime64(3, 'UTC') COMMENT 'Newest tick of the card [UTC]',
    age_seconds Float64 COMMENT 'Time since the newest tick; below 0: the host''s clock is ahead of the server''s [s]',
    is_stale Bool COMMENT 'Whether the newest tick is older than three intervals',
    card_state String COMMENT 'State of the card: active, idle-held, truly-idle, unknown, or unobserved if stale',
    pid UInt32 COMMENT 'Process id on the host',
    started Nullable(DateTime64(3, 'UTC')) COMMENT 'When the process started; NULL if unknown [UTC]',
    owner Nullable(String) COMMENT 'User of the process; NULL if unknown',
    program Nullable(String) COMMENT 'Process name; NULL if unknown',
    type Nullable(String) COMMENT 'compute, graphics or mps',
    container_id Nullable(String) COMMENT 'Container',
    pod_uid Nullable(String) COMMENT 'Kubernetes pod',
    slurm_job_id Nullable(String) COMMENT 'Slurm job',
    systemd_unit Nullable(String) COMMENT 'systemd unit',
    memory_bytes Nullable(UInt64) COMMENT 'Device memory of the process; NULL if unknown [By]',
    utilization Nullable(Float64) COMMENT 'Utilization by the process; NULL if unknown [0 to 1]',
    state String COMMENT 'State of the process at the newest tick: active, idle or unknown; unobserved if that is stale',
    idle_since Nullable(DateTime64(3, 'UTC'))
        COMMENT 'Start of the idle streak, searched back to the UTC day before; NULL if not idle [UTC]',
    idle_hours Nullable(Float64) COMMENT 'Time of the idle ticks since then; NULL if not idle [h]'
)
$DEFINER
AS
SELECT
${CARD_VALUES},
    facts.ts AS tick_time,
    facts.age_ms / 1000 AS age_seconds,
    facts.stale AS is_stale,
    facts.card_state AS card_state,
    facts.pid AS pid,
    nullIf(facts.created, toDateTime64(0, 3, 'UTC')) AS started,
    facts.owner AS owner,
    facts.program AS program,
    facts.type AS type,
    facts.container_id AS container_id,
    facts.pod_uid AS pod_uid,
    facts.slurm_job_id AS slurm_job_id,
    facts.systemd_unit AS systemd_unit,
    facts.memory_bytes AS memory_bytes,
    facts.utilization / 10000 AS utilization,
    facts.state AS state,
    facts.idle_since AS idle_since,
    facts.idle_ms / 3600000 AS idle_hours
FROM gua.current_holders AS facts
${DESCRIBED}
COMMENT 'Processes on cards at the card''s newest tick'
