-- One row is one tick of a card with a time in (since_ms, until_ms]: its state, and every value that it came with.
CREATE OR REPLACE VIEW gua_report.explain_ticks $ON_CLUSTER
$DEFINER
AS
SELECT
    toUnixTimestamp64Milli(states.ts) AS ts_ms,
    states.duration_ms AS duration_ms,
    states.gpu_time_ms AS gpu_time_ms,
    states.state AS state,
    states.reason AS reason,
    states.busiest_utilization AS busiest_utilization,
    states.threshold_bytes AS threshold_bytes,
    states.held_lower_bytes AS held_lower_bytes,
    states.held_upper_bytes AS held_upper_bytes,
    states.unattributed_lower_bytes AS unattributed_lower_bytes,
    ticks.utilization AS utilization,
    ticks.utilization_encoder AS utilization_encoder,
    ticks.utilization_decoder AS utilization_decoder,
    ticks.utilization_max AS utilization_max,
    ticks.utilization_coverage_ms AS utilization_coverage_ms,
    if(states.idle_time_ms IS NULL, ticks.idle_time_ms, states.idle_time_ms) AS idle_time_ms,
    states.idle_energy_mj AS idle_energy_mj,
    nullIf(states.idle_powered_ms, 0) AS idle_energy_coverage_ms,
    ticks.clock_reasons AS clock_reasons,
    ticks.xid_errors AS xid_errors,
    ticks.ecc_errors AS ecc_errors,
    ticks.xid AS xid,
    ticks.row_remap AS row_remap,
    ticks.sm_utilization AS sm_utilization,
    ticks.sm_occupancy AS sm_occupancy,
    ticks.tensor_utilization AS tensor_utilization,
    ticks.memory_bandwidth_utilization AS memory_bandwidth_utilization,
    ticks.memory_used_bytes AS memory_used_bytes,
    ticks.memory_limit_bytes AS memory_limit_bytes,
    ticks.memory_reserved_bytes AS memory_reserved_bytes,
    ticks.process_count_compute AS process_count_compute,
    ticks.process_count_graphics AS process_count_graphics,
    ticks.process_count_mps AS process_count_mps,
    ticks.process_count_ignored AS process_count_ignored,
    ticks.process_memory_compute_bytes AS process_memory_compute_bytes,
    ticks.process_memory_graphics_bytes AS process_memory_graphics_bytes,
    ticks.process_memory_mps_bytes AS process_memory_mps_bytes,
    ticks.process_memory_ignored_bytes AS process_memory_ignored_bytes,
    ticks.process_unknown_compute AS process_unknown_compute,
    ticks.process_unknown_graphics AS process_unknown_graphics,
    ticks.process_unknown_mps AS process_unknown_mps,
    ticks.process_unknown_ignored AS process_unknown_ignored,
    ticks.process_utilization_max AS process_utilization_max,
    ticks.power_mw AS power_mw,
    ticks.temperature_celsius AS temperature_celsius,
    ticks.energy_total_mj AS energy_total_mj,
    ticks.energy_mj AS energy_mj,
    ticks.failed AS failed,
    toNullable(toString(ticks.process_list)) AS process_list,
    ticks.memory_shared AS memory_shared,
    toNullable(toString(ticks.mig)) AS mig,
    toNullable(toString(ticks.source)) AS source,
    ticks.interval_ms AS interval_ms,
    toNullable(toString(ticks.allocation)) AS allocation,
    ticks.unallocated_gpu_time_ms AS unallocated_gpu_time_ms
FROM
(
    SELECT *
    FROM gua.card_states
    WHERE host = {host:String}
        AND gpu = {gpu:String}
        AND ${IN_WINDOW}
) AS states
INNER JOIN
(
    SELECT *
    FROM gua.card_ticks FINAL
    WHERE host = {host:String}
        AND gpu = {gpu:String}
        AND ${IN_WINDOW}
) AS ticks
    ON ticks.ts = states.ts
ORDER BY ts_ms
