-- One row is one card in one tick. Rows arrive in parts, twice, late or out of order; parts with the same key
-- merge into one row, in which a column that no part filled stays NULL: unknown. Read with FINAL.
CREATE TABLE IF NOT EXISTS gua.card_ticks $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'host.name of the sender',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    ts DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)) COMMENT 'When the card was read; the tick covers the duration_ms before',
    duration_ms SimpleAggregateFunction(anyLast, Nullable(UInt32)) CODEC(ZSTD(1)) COMMENT 'Seconds that this tick covers; the card was looked at even if nothing else could be read [ms]',
    gpu_time_ms SimpleAggregateFunction(anyLast, Nullable(UInt32)) CODEC(ZSTD(1)) COMMENT 'GPU time of the tick: its seconds times the card''s share of a whole GPU (slices / all slices for a MIG instance; a partitioned parent stands for its unallocated slices only) [ms]',
    utilization SimpleAggregateFunction(anyLast, Nullable(UInt16)) CODEC(ZSTD(1)) COMMENT 'Mean over the tick of the share of time in which an engine was busy, 0 to 1; general [1/10,000]',
    utilization_encoder SimpleAggregateFunction(anyLast, Nullable(UInt16)) CODEC(ZSTD(1)) COMMENT 'Mean over the tick of the share of time in which an engine was busy, 0 to 1; encoder [1/10,000]',
    utilization_decoder SimpleAggregateFunction(anyLast, Nullable(UInt16)) CODEC(ZSTD(1)) COMMENT 'Mean over the tick of the share of time in which an engine was busy, 0 to 1; decoder [1/10,000]',
    utilization_max SimpleAggregateFunction(anyLast, Nullable(UInt16)) CODEC(ZSTD(1)) COMMENT 'Largest utilization sample of the tick, 0 to 1 [1/10,000]',
    utilization_coverage_ms SimpleAggregateFunction(anyLast, Nullable(UInt32)) CODEC(ZSTD(1)) COMMENT 'Seconds of the tick that utilization samples cover; 0 means that the mean is one instant value [ms]',
    memory_used_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64)) CODEC(ZSTD(1)) COMMENT 'Device memory in use; without the driver''s reserve where that is known (gua.gpu.memory.reserved) [By]',
    memory_limit_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64)) CODEC(ZSTD(1)) COMMENT 'Device memory in total [By]',
    memory_reserved_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64)) CODEC(ZSTD(1)) COMMENT 'Memory the driver keeps for itself; absent where the driver cannot tell (then usage contains it) [By]',
    process_count_compute SimpleAggregateFunction(anyLast, Nullable(UInt32)) CODEC(ZSTD(1)) COMMENT 'Processes on the card by type; absent if the list is not known; compute [{process}]',
    process_count_graphics SimpleAggregateFunction(anyLast, Nullable(UInt32)) CODEC(ZSTD(1)) COMMENT 'Processes on the card by type; absent if the list is not known; graphics [{process}]',
    process_count_mps SimpleAggregateFunction(anyLast, Nullable(UInt32)) CODEC(ZSTD(1)) COMMENT 'Processes on the card by type; absent if the list is not known; mps [{process}]',
    process_count_ignored SimpleAggregateFunction(anyLast, Nullable(UInt32)) CODEC(ZSTD(1)) COMMENT 'Processes on the card by type; absent if the list is not known; ignored [{process}]',
    process_memory_compute_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64)) CODEC(ZSTD(1)) COMMENT 'Known device memory of the card''s processes by type; absent if the list is not known; compute [By]',
    process_memory_graphics_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64)) CODEC(ZSTD(1)) COMMENT 'Known device memory of the card''s processes by type; absent if the list is not known; graphics [By]',
    process_memory_mps_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64)) CODEC(ZSTD(1)) COMMENT 'Known device memory of the card''s processes by type; absent if the list is not known; mps [By]',
    process_memory_ignored_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64)) CODEC(ZSTD(1)) COMMENT 'Known device memory of the card''s processes by type; absent if the list is not known; ignored [By]',
    process_unknown_compute SimpleAggregateFunction(anyLast, Nullable(UInt32)) CODEC(ZSTD(1)) COMMENT 'Processes whose memory NVML does not tell, by type; absent if the list is not known; compute [{process}]',
    process_unknown_graphics SimpleAggregateFunction(anyLast, Nullable(UInt32)) CODEC(ZSTD(1)) COMMENT 'Processes whose memory NVML does not tell, by type; absent if the list is not known; graphics [{process}]',
    process_unknown_mps SimpleAggregateFunction(anyLast, Nullable(UInt32)) CODEC(ZSTD(1)) COMMENT 'Processes whose memory NVML does not tell, by type; absent if the list is not known; mps [{process}]',
    process_unknown_ignored SimpleAggregateFunction(anyLast, Nullable(UInt32)) CODEC(ZSTD(1)) COMMENT 'Processes whose memory NVML does not tell, by type; absent if the list is not known; ignored [{process}]',
    process_utilization_max SimpleAggregateFunction(anyLast, Nullable(UInt16)) CODEC(ZSTD(1)) COMMENT 'Utilization of the card''s busiest process, 0 to 1 [1/10,000]',
    power_mw SimpleAggregateFunction(anyLast, Nullable(UInt32)) CODEC(ZSTD(1)) COMMENT 'Power drawn by the card [mW]',
    temperature_celsius SimpleAggregateFunction(anyLast, Nullable(Int16)) CODEC(ZSTD(1)) COMMENT 'Temperature of the GPU core [Cel]',
    energy_total_mj SimpleAggregateFunction(anyLast, Nullable(UInt64)) CODEC(ZSTD(1)) COMMENT 'Energy since the driver was loaded [mJ]',
    energy_mj SimpleAggregateFunction(anyLast, Nullable(UInt64)) CODEC(ZSTD(1)) COMMENT 'Energy spent in the tick; absent across a reset of the counter [mJ]',
    failed SimpleAggregateFunction(anyLast, Nullable(UInt8)) CODEC(ZSTD(1)) COMMENT '1 for the state the card is in, 0 for the other; failed: lost, or needs a reset; failed [1]',
    process_list SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'Whether the process list can be believed: known, failed, pid_namespace, absent',
    memory_shared SimpleAggregateFunction(anyLast, Nullable(Bool)) CODEC(ZSTD(1)) COMMENT 'Whether the card uses the host''s memory',
    mig SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'none, parent (partitioned) or instance',
    source SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'Who made the tick: agent, import, simulator',
    interval_ms SimpleAggregateFunction(anyLast, Nullable(UInt32)) CODEC(ZSTD(1)) COMMENT 'Nominal sampling interval [ms]'
)
ENGINE = ${REPLICATED}AggregatingMergeTree
PARTITION BY toDate(ts)
ORDER BY (host, gpu, ts)
$TICKS_TTL
COMMENT 'One row per card and tick; read with FINAL'
