-- One row is one card in one tick with its state (docs/rules.md). The same rules stand in core/rules.py; one folder
-- of cases runs through both.
CREATE OR REPLACE VIEW gua.card_states $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the card is in',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    ts DateTime64(3, 'UTC') COMMENT 'When the card was read; the tick covers the duration_ms before',
    duration_ms UInt32 COMMENT 'Milliseconds that the tick covers',
    gpu_time_ms UInt32 COMMENT 'GPU time: duration_ms times the card''s share of a whole GPU',
    interval_ms Nullable(UInt32) COMMENT 'Nominal sampling interval [ms]',
    state String COMMENT 'active, idle-held, truly-idle or unknown',
    reason Nullable(String) COMMENT 'Why unknown: lost, utilization, pid_namespace, processes, memory',
    busiest_utilization Nullable(UInt16) COMMENT 'Largest known utilization of any engine or process [1/10,000]',
    threshold_bytes UInt64 COMMENT 'Memory up to which a card counts as not held',
    held_lower_bytes UInt64 COMMENT 'Memory held, at least',
    held_upper_bytes Nullable(UInt64) COMMENT 'Memory held, at most; NULL if unknown',
    counted_memory_bytes UInt64 COMMENT 'Known memory of the counted processes',
    unattributed_lower_bytes UInt64 COMMENT 'Memory held that no listed process owns, at least'
)
AS
WITH
    (SELECT value FROM gua.rules WHERE key = 'active_utilization') AS active_ratio,
    (SELECT value FROM gua.rules WHERE key = 'held_memory_bytes') AS held_bytes,
    (SELECT value FROM gua.rules WHERE key = 'held_memory_ratio') AS held_ratio,
    toUInt64(1073741824) AS largest_unknown_reserve,
    ifNull(process_list = 'known', false) AS list_known,
    if(list_known, ifNull(process_memory_compute_bytes, 0) + ifNull(process_memory_graphics_bytes, 0) + ifNull(process_memory_mps_bytes, 0), 0) AS counted_bytes,
    if(list_known, ifNull(process_unknown_compute, 0) + ifNull(process_unknown_graphics, 0) + ifNull(process_unknown_mps, 0), 0) AS counted_unknown,
    if(list_known, ifNull(process_memory_ignored_bytes, 0), 0) AS ignored_bytes,
    if(list_known, ifNull(process_unknown_ignored, 0), 0) AS ignored_unknown,
    memory_used_bytes IS NOT NULL AND NOT ifNull(memory_shared, false) AS upper_known,
    if(ifNull(memory_used_bytes, 0) > ignored_bytes, ifNull(memory_used_bytes, 0) - ignored_bytes, 0) AS device_upper,
    if(memory_reserved_bytes IS NULL, largest_unknown_reserve, 0) AS reserve_doubt,
    if(upper_known AND list_known AND ignored_unknown = 0 AND device_upper > reserve_doubt, device_upper - reserve_doubt, 0) AS device_lower,
    greatest(counted_bytes, device_lower) AS held_lower,
    greatest(counted_bytes, device_upper) AS held_upper,
    greatest(
        toUInt64(held_bytes),
        intDiv(ifNull(memory_limit_bytes, 0) * toUInt64(round(held_ratio * 10000)), 10000)
    ) AS threshold,
    greatest(
        ifNull(utilization, 0),
        ifNull(utilization_encoder, 0),
        ifNull(utilization_decoder, 0),
        ifNull(process_utilization_max, 0)
    ) AS busiest,
    ifNull(failed, 0) > 0 AS is_lost,
    busiest >= toUInt16(round(active_ratio * 10000)) AS is_active,
    counted_unknown = 0 AND multiIf(
        upper_known AND held_upper <= threshold, true,
        upper_known, memory_reserved_bytes IS NULL AND list_known AND ignored_unknown = 0 AND held_lower <= threshold,
        list_known AND counted_bytes <= threshold AND utilization IS NOT NULL
    ) AS is_free,
    utilization IS NOT NULL AND (
        held_lower > threshold
        OR counted_unknown > 0
        OR (NOT list_known AND memory_reserved_bytes IS NOT NULL AND upper_known AND held_upper > threshold)
    ) AS is_held
SELECT
    host,
    gpu,
    ts,
    assumeNotNull(duration_ms) AS duration_ms,
    ifNull(gpu_time_ms, 0) AS gpu_time_ms,
    interval_ms,
    multiIf(is_lost, 'unknown', is_active, 'active', is_free, 'truly-idle', is_held, 'idle-held', 'unknown') AS state,
    multiIf(
        is_lost, 'lost',
        is_active OR is_free OR is_held, NULL,
        utilization IS NULL, 'utilization',
        ifNull(process_list = 'pid_namespace', false), 'pid_namespace',
        NOT list_known, 'processes',
        'memory'
    ) AS reason,
    if(
        utilization IS NULL AND utilization_encoder IS NULL AND utilization_decoder IS NULL AND process_utilization_max IS NULL,
        NULL,
        busiest
    ) AS busiest_utilization,
    threshold AS threshold_bytes,
    held_lower AS held_lower_bytes,
    if(upper_known, held_upper, NULL) AS held_upper_bytes,
    counted_bytes AS counted_memory_bytes,
    if(counted_unknown > 0, 0, held_lower - counted_bytes) AS unattributed_lower_bytes
FROM gua.card_ticks FINAL
WHERE duration_ms IS NOT NULL
COMMENT 'Every card tick with its state'
