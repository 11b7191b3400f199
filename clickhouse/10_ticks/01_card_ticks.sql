-- One row is one card in one tick. A tick arrives as several rows, possibly twice, late or out of order. Rows with the same key merge; a
-- column without a value stays NULL (unknown). Read with FINAL.
CREATE TABLE IF NOT EXISTS gua.card_ticks${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'host.name of the sender',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    ts DateTime64(3, 'UTC') COMMENT 'End of the tick: time at which the card was read' CODEC(Delta, ZSTD(1)),
    duration_ms SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Time that the tick covers, even if no other value was readable [ms]' CODEC(ZSTD(1)),
    gpu_time_ms SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Duration x share of a whole GPU, by MIG slices; for a partitioned GPU by its unallocated slices [ms]' CODEC(ZSTD(1)),
    utilization SimpleAggregateFunction(anyLast, Nullable(UInt16)) COMMENT 'Mean general utilization [1/10,000]' CODEC(ZSTD(1)),
    utilization_encoder SimpleAggregateFunction(anyLast, Nullable(UInt16)) COMMENT 'Mean encoder utilization [1/10,000]' CODEC(ZSTD(1)),
    utilization_decoder SimpleAggregateFunction(anyLast, Nullable(UInt16)) COMMENT 'Mean decoder utilization [1/10,000]' CODEC(ZSTD(1)),
    utilization_max SimpleAggregateFunction(anyLast, Nullable(UInt16)) COMMENT 'Largest sample of the tick [1/10,000]' CODEC(ZSTD(1)),
    utilization_coverage_ms SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Time that utilization samples cover; 0: the mean is one value [ms]' CODEC(ZSTD(1)),
    memory_used_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64))
        COMMENT 'Device memory in use, without the driver''s reserve if that is known [By]' CODEC(ZSTD(1)),
    memory_limit_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64)) COMMENT 'Device memory in total [By]' CODEC(ZSTD(1)),
    memory_reserved_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64))
        COMMENT 'Memory reserved by the driver; NULL if unknown (then usage includes it) [By]' CODEC(ZSTD(1)),
    process_count_compute SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Compute processes; NULL if the list is unknown [{process}]' CODEC(ZSTD(1)),
    process_count_graphics SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Graphics processes; NULL if the list is unknown [{process}]' CODEC(ZSTD(1)),
    process_count_mps SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'MPS clients; NULL if the list is unknown [{process}]' CODEC(ZSTD(1)),
    process_count_ignored SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Ignored processes; NULL if the list is unknown [{process}]' CODEC(ZSTD(1)),
    process_memory_compute_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64))
        COMMENT 'Known memory of compute processes; NULL if the list is unknown [By]' CODEC(ZSTD(1)),
    process_memory_graphics_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64))
        COMMENT 'Known memory of graphics processes; NULL if the list is unknown [By]' CODEC(ZSTD(1)),
    process_memory_mps_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64))
        COMMENT 'Known memory of MPS clients; NULL if the list is unknown [By]' CODEC(ZSTD(1)),
    process_memory_ignored_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64))
        COMMENT 'Known memory of ignored processes; NULL if the list is unknown [By]' CODEC(ZSTD(1)),
    process_unknown_compute SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Compute processes of unknown memory; NULL if the list is unknown [{process}]' CODEC(ZSTD(1)),
    process_unknown_graphics SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Graphics processes of unknown memory; NULL if the list is unknown [{process}]' CODEC(ZSTD(1)),
    process_unknown_mps SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'MPS clients of unknown memory; NULL if the list is unknown [{process}]' CODEC(ZSTD(1)),
    process_unknown_ignored SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Ignored processes of unknown memory; NULL if the list is unknown [{process}]' CODEC(ZSTD(1)),
    process_utilization_max SimpleAggregateFunction(anyLast, Nullable(UInt16))
        COMMENT 'Utilization of the busiest process [1/10,000]' CODEC(ZSTD(1)),
    power_mw SimpleAggregateFunction(anyLast, Nullable(UInt32)) COMMENT 'Power drawn by the card [mW]' CODEC(ZSTD(1)),
    temperature_celsius SimpleAggregateFunction(anyLast, Nullable(Int16)) COMMENT 'Temperature of the GPU core [Cel]' CODEC(ZSTD(1)),
    energy_total_mj SimpleAggregateFunction(anyLast, Nullable(UInt64)) COMMENT 'Energy since the driver was loaded [mJ]' CODEC(ZSTD(1)),
    energy_mj SimpleAggregateFunction(anyLast, Nullable(UInt64))
        COMMENT 'Energy spent in the tick; NULL after a counter reset [mJ]' CODEC(ZSTD(1)),
    failed SimpleAggregateFunction(anyLast, Nullable(UInt8)) COMMENT '1 if the card is lost or needs a reset, else 0' CODEC(ZSTD(1)),
    process_list SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String)))
        COMMENT 'Whether the process list is known: known, failed, pid_namespace, absent' CODEC(ZSTD(1)),
    memory_shared SimpleAggregateFunction(anyLast, Nullable(Bool)) COMMENT 'Whether the card uses the host''s memory' CODEC(ZSTD(1)),
    mig SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'none, parent (partitioned) or instance' CODEC(ZSTD(1)),
    source SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'Resource attribute gua.source' CODEC(ZSTD(1)),
    interval_ms SimpleAggregateFunction(anyLast, Nullable(UInt32)) COMMENT 'Nominal sampling interval [ms]' CODEC(ZSTD(1)),
    allocation SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String)))
        COMMENT 'allocated, unallocated or unknown; NULL without an allocation source' CODEC(ZSTD(1)),
    unallocated_gpu_time_ms SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Unallocated GPU time; NULL if unknown, or without an allocation source [ms]' CODEC(ZSTD(1)),
    idle_time_ms SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Sampled time below the threshold of active; NULL if unknown [ms]' CODEC(GCD, ZSTD(1)),
    idle_energy_mj SimpleAggregateFunction(anyLast, Nullable(UInt64))
        COMMENT 'Energy of idle_energy_coverage_ms; NULL without power samples [mJ]' CODEC(GCD, ZSTD(1)),
    idle_energy_coverage_ms SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Part of idle_time_ms with power samples; NULL: all of it, or none if idle_energy_mj is NULL [ms]' CODEC(ZSTD(1)),
    clock_reasons SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Clocks event reasons of NVML at ts: 4 power cap, 32 + 64 heat, 8 + 128 hardware; NULL if unknown' CODEC(ZSTD(1)),
    xid_errors SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'XID events since the last tick, at least; read once a minute; NULL if unknown [{error}]' CODEC(ZSTD(1)),
    ecc_errors SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Uncorrected ECC errors since the last tick; read once a minute; NULL if unknown [{error}]' CODEC(ZSTD(1)),
    xid SimpleAggregateFunction(anyLast, Nullable(UInt16)) COMMENT 'Number of the newest XID event; NULL: none' CODEC(ZSTD(1)),
    row_remap SimpleAggregateFunction(anyLast, Nullable(UInt8))
        COMMENT 'Row remapping: 0 none, 1 pending until a reset, 2 failed, 3 both; NULL if unknown' CODEC(ZSTD(1)),
    recovery_action SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Recovery action of NVML: 0 none, 1 reset, 2 reboot, 3 drain, 4 drain and reset; NULL if unknown' CODEC(ZSTD(1)),
    sm_utilization SimpleAggregateFunction(anyLast, Nullable(UInt8))
        COMMENT 'Mean share of busy SMs, by GPM; NULL if unknown [1/200]' CODEC(ZSTD(1)),
    sm_occupancy SimpleAggregateFunction(anyLast, Nullable(UInt8))
        COMMENT 'Mean share of resident warps on the SMs, by GPM; NULL if unknown [1/200]' CODEC(ZSTD(1)),
    tensor_utilization SimpleAggregateFunction(anyLast, Nullable(UInt8))
        COMMENT 'Mean share of time in tensor operations, by GPM; NULL if unknown [1/200]' CODEC(ZSTD(1)),
    memory_bandwidth_utilization SimpleAggregateFunction(anyLast, Nullable(UInt8))
        COMMENT 'Mean share of used memory bandwidth, by GPM; NULL if unknown [1/200]' CODEC(ZSTD(1))
)
ENGINE = ${REPLICATED}AggregatingMergeTree
PARTITION BY toDate(ts)
ORDER BY (host, gpu, ts)
$TICKS_TTL
$TABLE_SETTINGS
COMMENT 'One row per card and tick; read with FINAL'
