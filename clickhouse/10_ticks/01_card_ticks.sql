-- One row is one card in one tick. A tick arrives as several rows, possibly twice, late or out of order. Rows with the same key merge; a
-- column without a value stays NULL (unknown). Read with FINAL.
CREATE TABLE IF NOT EXISTS gua.card_ticks${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'host.name of the sender',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    ts DateTime64(3, 'UTC') COMMENT 'When the card was read; the tick covers the duration_ms before' CODEC(Delta, ZSTD(1)),
    duration_ms SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Seconds that this tick covers; the card was looked at even if nothing else could be read [ms]' CODEC(ZSTD(1)),
    gpu_time_ms SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Duration x share of a whole GPU: of a MIG instance its slices, of its parent the unallocated ones [ms]' CODEC(ZSTD(1)),
    utilization SimpleAggregateFunction(anyLast, Nullable(UInt16))
        COMMENT 'Mean over the tick of the share of time in which an engine was busy, 0 to 1; general [1/10,000]' CODEC(ZSTD(1)),
    utilization_encoder SimpleAggregateFunction(anyLast, Nullable(UInt16))
        COMMENT 'Mean over the tick of the share of time in which an engine was busy, 0 to 1; encoder [1/10,000]' CODEC(ZSTD(1)),
    utilization_decoder SimpleAggregateFunction(anyLast, Nullable(UInt16))
        COMMENT 'Mean over the tick of the share of time in which an engine was busy, 0 to 1; decoder [1/10,000]' CODEC(ZSTD(1)),
    utilization_max SimpleAggregateFunction(anyLast, Nullable(UInt16))
        COMMENT 'Largest utilization sample of the tick, 0 to 1 [1/10,000]' CODEC(ZSTD(1)),
    utilization_coverage_ms SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Seconds of the tick that utilization samples cover; 0 means that the mean is one instant value [ms]' CODEC(ZSTD(1)),
    memory_used_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64))
        COMMENT 'Device memory in use; without the driver''s reserve where that is known (gua.gpu.memory.reserved) [By]' CODEC(ZSTD(1)),
    memory_limit_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64)) COMMENT 'Device memory in total [By]' CODEC(ZSTD(1)),
    memory_reserved_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64))
        COMMENT 'Memory the driver keeps for itself; absent where the driver cannot tell (then usage contains it) [By]' CODEC(ZSTD(1)),
    process_count_compute SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Processes on the card by type; absent if the list is not known; compute [{process}]' CODEC(ZSTD(1)),
    process_count_graphics SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Processes on the card by type; absent if the list is not known; graphics [{process}]' CODEC(ZSTD(1)),
    process_count_mps SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Processes on the card by type; absent if the list is not known; mps [{process}]' CODEC(ZSTD(1)),
    process_count_ignored SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Processes on the card by type; absent if the list is not known; ignored [{process}]' CODEC(ZSTD(1)),
    process_memory_compute_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64))
        COMMENT 'Known device memory of the card''s processes by type; absent if the list is not known; compute [By]' CODEC(ZSTD(1)),
    process_memory_graphics_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64))
        COMMENT 'Known device memory of the card''s processes by type; absent if the list is not known; graphics [By]' CODEC(ZSTD(1)),
    process_memory_mps_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64))
        COMMENT 'Known device memory of the card''s processes by type; absent if the list is not known; mps [By]' CODEC(ZSTD(1)),
    process_memory_ignored_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64))
        COMMENT 'Known device memory of the card''s processes by type; absent if the list is not known; ignored [By]' CODEC(ZSTD(1)),
    process_unknown_compute SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Processes whose memory NVML does not tell, by type; absent if the list is not known; compute [{process}]' CODEC(ZSTD(1)),
    process_unknown_graphics SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Processes whose memory NVML does not tell, by type; absent if the list is not known; graphics [{process}]' CODEC(ZSTD(1)),
    process_unknown_mps SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Processes whose memory NVML does not tell, by type; absent if the list is not known; mps [{process}]' CODEC(ZSTD(1)),
    process_unknown_ignored SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Processes whose memory NVML does not tell, by type; absent if the list is not known; ignored [{process}]' CODEC(ZSTD(1)),
    process_utilization_max SimpleAggregateFunction(anyLast, Nullable(UInt16))
        COMMENT 'Utilization of the card''s busiest process, 0 to 1 [1/10,000]' CODEC(ZSTD(1)),
    power_mw SimpleAggregateFunction(anyLast, Nullable(UInt32)) COMMENT 'Power drawn by the card [mW]' CODEC(ZSTD(1)),
    temperature_celsius SimpleAggregateFunction(anyLast, Nullable(Int16)) COMMENT 'Temperature of the GPU core [Cel]' CODEC(ZSTD(1)),
    energy_total_mj SimpleAggregateFunction(anyLast, Nullable(UInt64)) COMMENT 'Energy since the driver was loaded [mJ]' CODEC(ZSTD(1)),
    energy_mj SimpleAggregateFunction(anyLast, Nullable(UInt64))
        COMMENT 'Energy spent in the tick; absent across a reset of the counter [mJ]' CODEC(ZSTD(1)),
    failed SimpleAggregateFunction(anyLast, Nullable(UInt8))
        COMMENT '1 for the state the card is in, 0 for the other; failed: lost, or needs a reset; failed [1]' CODEC(ZSTD(1)),
    process_list SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String)))
        COMMENT 'Whether the process list can be believed: known, failed, pid_namespace, absent' CODEC(ZSTD(1)),
    memory_shared SimpleAggregateFunction(anyLast, Nullable(Bool)) COMMENT 'Whether the card uses the host''s memory' CODEC(ZSTD(1)),
    mig SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'none, parent (partitioned) or instance' CODEC(ZSTD(1)),
    source SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String)))
        COMMENT 'Who made the tick: agent, import, simulator' CODEC(ZSTD(1)),
    interval_ms SimpleAggregateFunction(anyLast, Nullable(UInt32)) COMMENT 'Nominal sampling interval [ms]' CODEC(ZSTD(1)),
    allocation SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String)))
        COMMENT 'Allocation of the card: allocated, unallocated, unknown; NULL without a source of allocations' CODEC(ZSTD(1)),
    unallocated_gpu_time_ms SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'GPU time of the tick that nobody was promised; NULL if not looked at or not known [ms]' CODEC(ZSTD(1)),
    idle_time_ms SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Time of the tick whose samples lie below the threshold of active, of what samples cover; NULL if unknown [ms]'
        CODEC(GCD, ZSTD(1)),
    idle_energy_mj SimpleAggregateFunction(anyLast, Nullable(UInt64))
        COMMENT 'Energy of idle_energy_coverage_ms of that time; NULL if power samples tell nothing [mJ]' CODEC(GCD, ZSTD(1)),
    idle_energy_coverage_ms SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'How much of idle_time_ms power samples cover; NULL if all of it, or if idle_energy_mj is NULL nothing [ms]' CODEC(ZSTD(1)),
    clock_reasons SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Why clocks were held down at ts, bits of NVML: 4 power cap, 32 + 64 heat, 8 + 128 hardware; NULL if unknown'
        CODEC(ZSTD(1)),
    xid_errors SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'XID events told since the tick before, at least; asked for once a minute; NULL if unknown [{error}]' CODEC(ZSTD(1)),
    ecc_errors SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Uncorrected ECC errors told since the tick before; asked for once a minute; NULL if unknown [{error}]' CODEC(ZSTD(1)),
    xid SimpleAggregateFunction(anyLast, Nullable(UInt16))
        COMMENT 'Number of the newest XID event told since the tick before; NULL if there was none' CODEC(ZSTD(1)),
    row_remap SimpleAggregateFunction(anyLast, Nullable(UInt8))
        COMMENT 'Remapping of memory rows: 0 nothing to do, 1 pending until a reset, 2 failed, 3 both; NULL if unknown' CODEC(ZSTD(1)),
    sm_utilization SimpleAggregateFunction(anyLast, Nullable(UInt8))
        COMMENT 'Mean over the tick of the share of SMs that were busy, by GPM; NULL if unknown or not read [1/200]' CODEC(ZSTD(1)),
    sm_occupancy SimpleAggregateFunction(anyLast, Nullable(UInt8))
        COMMENT 'Mean over the tick of the warps on the SMs, of those that fit, by GPM; NULL if unknown or not read [1/200]' CODEC(ZSTD(1)),
    tensor_utilization SimpleAggregateFunction(anyLast, Nullable(UInt8))
        COMMENT 'Mean over the tick of the time in tensor operations, by GPM; NULL if unknown or not read [1/200]' CODEC(ZSTD(1)),
    memory_bandwidth_utilization SimpleAggregateFunction(anyLast, Nullable(UInt8))
        COMMENT 'Mean over the tick of the memory bandwidth used, by GPM; NULL if unknown or not read [1/200]' CODEC(ZSTD(1))
)
ENGINE = ${REPLICATED}AggregatingMergeTree
PARTITION BY toDate(ts)
ORDER BY (host, gpu, ts)
$TICKS_TTL
$TABLE_SETTINGS
COMMENT 'One row per card and tick; read with FINAL'
