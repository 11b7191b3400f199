-- One row is one card of a host in gua explain. Times are Unix time [ms].
CREATE OR REPLACE VIEW gua_report.explain_cards $ON_CLUSTER
$DEFINER
AS
SELECT
    toString(host) AS host,
    toString(gpu) AS gpu,
    gpu_index,
    name,
    mig,
    parent,
    driver_version,
    pci,
    ifNull(source, 'agent') AS source,
    interval_ms,
    toUnixTimestamp64Milli(first_seen) AS first_ms,
    toUnixTimestamp64Milli(last_seen) AS last_ms
FROM gua.cards
WHERE ${OF_HOSTS}
ORDER BY
    host,
    gpu_index,
    mig,
    gpu
;
-- One row is one tick of a card near at_ms: at most {limit} before it and {limit} from it on. Only ticks in (since_ms, until_ms] are
-- read.
CREATE OR REPLACE VIEW gua_report.explain_moments $ON_CLUSTER
$DEFINER
AS
SELECT
    ts_ms,
    duration_ms
FROM
(
    SELECT
        toUnixTimestamp64Milli(ts) AS ts_ms,
        assumeNotNull(duration_ms) AS duration_ms
    FROM gua.card_ticks AS ticks FINAL
    WHERE host = {host:String}
        AND gpu = {gpu:String}
        AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
        AND ts < fromUnixTimestamp64Milli({at_ms:Int64}, 'UTC')
        AND ticks.duration_ms IS NOT NULL
    ORDER BY ts DESC
    LIMIT {limit:UInt32}
    UNION ALL
    SELECT
        toUnixTimestamp64Milli(ts) AS ts_ms,
        assumeNotNull(duration_ms) AS duration_ms
    FROM gua.card_ticks AS ticks FINAL
    WHERE host = {host:String}
        AND gpu = {gpu:String}
        AND ts >= fromUnixTimestamp64Milli({at_ms:Int64}, 'UTC')
        AND ts <= fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
        AND ticks.duration_ms IS NOT NULL
    ORDER BY ts ASC
    LIMIT {limit:UInt32}
)
ORDER BY ts_ms
;
-- One row is one tick of a card that ends in (since_ms, until_ms], with its state and all its values.
CREATE OR REPLACE VIEW gua_report.explain_ticks $ON_CLUSTER
$DEFINER
AS
SELECT
    toUnixTimestamp64Milli(states.ts) AS ts_ms,
    states.* EXCEPT (ts, idle_time_ms, idle_powered_ms),
    if(states.idle_time_ms IS NULL, ticks.idle_time_ms, states.idle_time_ms) AS idle_time_ms,
    nullIf(states.idle_powered_ms, 0) AS idle_energy_coverage_ms,
    ticks.* EXCEPT (host, gpu, ts, duration_ms, gpu_time_ms, idle_time_ms, idle_energy_mj, idle_energy_coverage_ms)
FROM
(
    SELECT
        ts,
        duration_ms,
        gpu_time_ms,
        state,
        reason,
        busiest_utilization,
        threshold_bytes,
        held_lower_bytes,
        held_upper_bytes,
        unattributed_lower_bytes,
        idle_time_ms,
        idle_energy_mj,
        idle_powered_ms,
        without_process
    FROM gua.card_states
    WHERE ${OF_CARD}
) AS states
INNER JOIN
(
    SELECT *
    FROM gua.card_ticks FINAL
    WHERE ${OF_CARD}
) AS ticks
    ON ticks.ts = states.ts
ORDER BY ts_ms
;
-- One row is one process on a card in one tick that ends in (since_ms, until_ms], with its state and all its values.
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
    WHERE ${OF_CARD}
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
    WHERE ${OF_CARD}
) AS ticks
    ON ticks.ts = states.ts AND ticks.pid = states.pid AND ticks.created = states.created
ORDER BY
    ts_ms,
    pid,
    created_ms
;
-- One row is one part of a tick of a card that ends in (since_ms, until_ms], with its use. It belongs to an allocation, is unallocated
-- (source is empty), or unknown (relation is unknown, too). Ticks without an allocation source have no parts.
CREATE OR REPLACE VIEW gua_report.explain_allocations $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    ${USES},
    checked_ticks AS
    (
        SELECT
            ${WHOLE_CHECKED_TICK}
        FROM gua.card_states
        WHERE ${OF_CARD}
            AND allocation IS NOT NULL
            AND duration_ms > 0
    ),
    allocations AS
    (
        SELECT *
        FROM gua.allocation_ticks FINAL
        WHERE ${OF_CARD}
    ),
${USE_TICKS}
SELECT
    toUnixTimestamp64Milli(part.ts) AS ts_ms,
    toString(part.source) AS source,
    toString(part.allocation_id) AS allocation_id,
    toNullable(toString(part.owner)) AS owner,
    named.uid AS uid,
    toNullable(toString(named.kind)) AS kind,
    toNullable(toString(named.job_name)) AS job_name,
    toNullable(toString(named.pod_uid)) AS pod_uid,
    toNullable(toString(named.pod_name)) AS pod_name,
    toNullable(toString(named.pod_namespace)) AS pod_namespace,
    toUnixTimestamp64Milli(named.since) AS since_ms,
    toUnixTimestamp64Milli(named.until) AS until_ms,
    nullIf(toString(part.relation), '') AS relation,
    USE_NAMES[part.use_code] AS use,
    part.is_shared AS is_shared,
    toUInt64(part.part_until_ms - part.part_since_ms) AS duration_ms,
    intDiv(part.part_us, 1000) AS gpu_time_ms
FROM
(
    SELECT *
    FROM use_ticks
) AS part
LEFT JOIN allocations AS named
    ON named.ts = part.ts AND named.source = part.source AND named.allocation_id = part.allocation_id
-- By columns: with query_plan_merge_expressions the planner of ClickHouse 26.7 does not terminate on expressions here.
ORDER BY
    part.ts,
    part.source = '',
    part.source,
    part.allocation_id,
    USE_NAMES[part.use_code]
