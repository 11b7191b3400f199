-- One row is one card in one tick with its state (docs/rules.md). core/rules.py implements the same rules; tests/cases/rules tests both.
CREATE OR REPLACE VIEW gua.card_states${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the card is in',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    ts DateTime64(3, 'UTC') COMMENT 'End of the tick: time at which the card was read',
    duration_ms UInt32 COMMENT 'Time that the tick covers [ms]',
    gpu_time_ms UInt32 COMMENT 'GPU time: duration_ms x share of a whole GPU [ms]',
    interval_ms Nullable(UInt32) COMMENT 'Nominal sampling interval [ms]',
    state String COMMENT 'active, idle-held, truly-idle or unknown',
    reason Nullable(String) COMMENT 'Reason of unknown: lost, utilization, pid_namespace, processes, memory',
    busiest_utilization Nullable(UInt16) COMMENT 'Largest known utilization of any engine or process [1/10,000]',
    threshold_bytes UInt64 COMMENT 'Memory up to which a card counts as not held',
    held_lower_bytes UInt64 COMMENT 'Held memory, at least',
    held_upper_bytes Nullable(UInt64) COMMENT 'Held memory, at most; NULL if unknown',
    counted_memory_bytes UInt64 COMMENT 'Known memory of the counted processes',
    unattributed_lower_bytes UInt64 COMMENT 'Held memory without a listed process, at least',
    largest_utilization Nullable(UInt16) COMMENT 'Largest known utilization of any engine, process or sample [1/10,000]',
    energy_mj Nullable(UInt64) COMMENT 'Energy spent in the tick, by counter; NULL after a counter reset [mJ]',
    power_mw Nullable(UInt32) COMMENT 'Power at ts [mW]',
    is_partitioned Bool COMMENT 'Whether it is a partitioned GPU, with its unallocated MIG slices',
    allocation LowCardinality(Nullable(String)) COMMENT 'allocated, unallocated or unknown; NULL without an allocation source',
    unallocated_gpu_time_ms Nullable(UInt32) COMMENT 'Unallocated GPU time; NULL if unknown, or without an allocation source [ms]',
    sampled_ms UInt32 COMMENT 'Sampled time of the tick; 0 without samples [ms]',
    idle_time_ms Nullable(UInt32) COMMENT 'Part of sampled_ms below the threshold of active; NULL if unknown [ms]',
    idle_powered_ms UInt32 COMMENT 'Part of idle_time_ms with power samples; 0 without any [ms]',
    idle_energy_mj Nullable(UInt64) COMMENT 'Energy of idle_powered_ms; NULL without power samples [mJ]',
    sm_utilization Nullable(UInt8) COMMENT 'Mean share of busy SMs; NULL if unknown [1/200]',
    sm_occupancy Nullable(UInt8) COMMENT 'Mean share of resident warps on the SMs; NULL if unknown [1/200]',
    tensor_utilization Nullable(UInt8) COMMENT 'Mean share of time in tensor operations; NULL if unknown [1/200]',
    memory_bandwidth_utilization Nullable(UInt8) COMMENT 'Mean share of used memory bandwidth; NULL if unknown [1/200]',
    memory_limit_bytes Nullable(UInt64) COMMENT 'Device memory in total; NULL if unknown [By]',
    memory_reserved_bytes Nullable(UInt64) COMMENT 'Memory reserved by the driver; NULL if unknown [By]',
    is_instance Bool COMMENT 'Whether it is a MIG instance',
    is_shared Bool COMMENT 'Whether it uses the host''s memory',
    clock_reasons Nullable(UInt32) COMMENT 'Clocks event reasons at ts, as in gua.card_ticks; NULL if unknown',
    xid_errors Nullable(UInt32) COMMENT 'XID events since the last tick; NULL if unknown [{error}]',
    xid Nullable(UInt16) COMMENT 'Number of the newest XID event; NULL: none',
    ecc_errors Nullable(UInt32) COMMENT 'Uncorrected ECC errors since the last tick; NULL if unknown [{error}]',
    row_remap Nullable(UInt8) COMMENT 'Row remapping, as in card_ticks; NULL if unknown',
    recovery_action Nullable(UInt32) COMMENT 'Recovery action, as in card_ticks; NULL if unknown',
    without_process Nullable(Bool) COMMENT 'Active: whether without a process and held memory; NULL if unknown, or not active'
)
$DEFINER
AS
-- Nested subqueries: the planner would otherwise repeat each expression wherever it is used.
SELECT
    host,
    gpu,
    ts,
    duration_ms,
    gpu_time_ms,
    interval_ms,
    multiIf(is_lost, 'unknown', is_active, 'active', is_free, 'truly-idle', is_held, 'idle-held', 'unknown') AS state,
    multiIf(
        is_lost, 'lost',
        is_active OR is_free OR is_held, NULL,
        NOT general_known, 'utilization',
        in_pid_namespace, 'pid_namespace',
        NOT list_known, 'processes',
        'memory'
    ) AS reason,
    busiest_utilization,
    threshold AS threshold_bytes,
    held_lower AS held_lower_bytes,
    if(upper_known, held_upper, NULL) AS held_upper_bytes,
    counted_bytes AS counted_memory_bytes,
    if(counted_unknown > 0, 0, held_lower - counted_bytes) AS unattributed_lower_bytes,
    largest_utilization,
    energy_mj,
    power_mw,
    is_partitioned,
    allocation,
    unallocated_gpu_time_ms,
    sampled_ms,
    if(idle_time IS NULL OR sampled_ms = 0, NULL, least(idle_time, sampled_ms)) AS idle_time_ms,
    least(idle_powered, ifNull(idle_time_ms, 0)) AS idle_powered_ms,
    if(idle_powered_ms = 0, NULL, idle_energy) AS idle_energy_mj,
    ${MEASURED_COLUMNS}
FROM
(
    SELECT
        *,
        counted_unknown = 0 AND multiIf(
            upper_known AND held_upper <= threshold, true,
            upper_known, NOT reserve_known AND list_known AND ignored_unknown = 0 AND held_lower <= threshold,
            list_known AND counted_bytes <= threshold AND general_known
        ) AS is_free,
        general_known AND (
            held_lower > threshold
            OR counted_unknown > 0
            OR (NOT list_known AND reserve_known AND upper_known AND held_upper > threshold)
        ) AS is_held,
        if(is_lost OR NOT is_active OR processes_seen IS NULL, NULL, toBool(is_free AND processes_seen = 0)) AS without_process
    FROM
    (
        SELECT
            *,
            greatest(
                counted_bytes,
                if(
                    upper_known AND list_known AND ignored_unknown = 0 AND device_upper > reserve_doubt,
                    device_upper - reserve_doubt,
                    0
                )
            ) AS held_lower,
            greatest(counted_bytes, device_upper) AS held_upper
        FROM
        (
            SELECT
                *,
                if(used_bytes > ignored_bytes, used_bytes - ignored_bytes, 0) AS device_upper,
                if(reserve_known, 0, toUInt64(1073741824)) AS reserve_doubt
            FROM
            (
                WITH
                    (
                        SELECT CAST(
                            (
                                anyIf(value, key = 'active_utilization'),
                                anyIf(value, key = 'held_memory_bytes'),
                                anyIf(value, key = 'held_memory_ratio')
                            ),
                            'Tuple(active_utilization Float64, held_memory_bytes Float64, held_memory_ratio Float64)'
                        )
                        FROM gua.rules
                    ) AS in_force,
                    ifNull(process_list = 'known', false) AS known
                SELECT
                    host,
                    gpu,
                    ts,
                    assumeNotNull(duration_ms) AS duration_ms,
                    ifNull(gpu_time_ms, 0) AS gpu_time_ms,
                    interval_ms,
                    known AS list_known,
                    ifNull(process_list = 'pid_namespace', false) AS in_pid_namespace,
                    if(
                        known,
                        ifNull(process_memory_compute_bytes, 0)
                        + ifNull(process_memory_graphics_bytes, 0)
                        + ifNull(process_memory_mps_bytes, 0),
                        0
                    ) AS counted_bytes,
                    if(
                        known,
                        ifNull(process_unknown_compute, 0)
                        + ifNull(process_unknown_graphics, 0)
                        + ifNull(process_unknown_mps, 0),
                        0
                    ) AS counted_unknown,
                    if(known, ifNull(process_memory_ignored_bytes, 0), 0) AS ignored_bytes,
                    if(known, ifNull(process_unknown_ignored, 0), 0) AS ignored_unknown,
                    ifNull(memory_used_bytes, 0) AS used_bytes,
                    memory_used_bytes IS NOT NULL AND NOT ifNull(memory_shared, false) AS upper_known,
                    memory_reserved_bytes IS NOT NULL AS reserve_known,
                    utilization IS NOT NULL AS general_known,
                    ifNull(failed, 0) > 0 AS is_lost,
                    greatest(
                        ifNull(utilization, 0),
                        ifNull(utilization_encoder, 0),
                        ifNull(utilization_decoder, 0),
                        ifNull(process_utilization_max, 0)
                    ) AS busiest,
                    busiest >= toUInt16(round(in_force.active_utilization * 10000)) AS is_active,
                    if(
                        coalesce(utilization, utilization_encoder, utilization_decoder, process_utilization_max) IS NULL,
                        NULL,
                        busiest
                    ) AS busiest_utilization,
                    if(
                        busiest_utilization IS NULL AND utilization_max IS NULL,
                        NULL,
                        greatest(busiest, ifNull(utilization_max, 0))
                    ) AS largest_utilization,
                    energy_mj,
                    power_mw,
                    ifNull(mig = 'parent', false) AS is_partitioned,
                    allocation,
                    unallocated_gpu_time_ms,
                    if(ticks.idle_time_ms IS NULL, 0, least(ifNull(ticks.utilization_coverage_ms, 0), duration_ms)) AS sampled_ms,
                    ticks.idle_time_ms AS idle_time,
                    if(
                        ticks.idle_energy_mj IS NULL,
                        0,
                        ifNull(ticks.idle_energy_coverage_ms, ifNull(ticks.idle_time_ms, 0))
                    ) AS idle_powered,
                    ticks.idle_energy_mj AS idle_energy,
                    ticks.sm_utilization AS sm_utilization,
                    ticks.sm_occupancy AS sm_occupancy,
                    ticks.tensor_utilization AS tensor_utilization,
                    ticks.memory_bandwidth_utilization AS memory_bandwidth_utilization,
                    ticks.memory_limit_bytes AS memory_limit_bytes,
                    ticks.memory_reserved_bytes AS memory_reserved_bytes,
                    ifNull(ticks.mig = 'instance', false) AS is_instance,
                    ifNull(ticks.memory_shared, false) AS is_shared,
                    ticks.clock_reasons AS clock_reasons,
                    ticks.xid_errors AS xid_errors,
                    ticks.xid AS xid,
                    ticks.ecc_errors AS ecc_errors,
                    ticks.row_remap AS row_remap,
                    if(known, ticks.processes_seen, NULL) AS processes_seen,
                    ticks.recovery_action AS recovery_action,
                    greatest(
                        toUInt64(in_force.held_memory_bytes),
                        intDiv(ifNull(memory_limit_bytes, 0) * toUInt64(round(in_force.held_memory_ratio * 10000)), 10000)
                    ) AS threshold
                FROM gua.card_ticks${LOCAL} AS ticks FINAL
                WHERE ticks.duration_ms IS NOT NULL
            )
        )
    )
) AS judged
COMMENT 'Card ticks with their state'
