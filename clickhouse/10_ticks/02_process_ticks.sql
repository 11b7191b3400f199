-- One row is one process on one card in one tick. Rows merge as in gua.card_ticks. Read with FINAL.
CREATE TABLE IF NOT EXISTS gua.process_ticks${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'host.name of the sender',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    ts DateTime64(3, 'UTC') COMMENT 'End of the tick' CODEC(Delta, ZSTD(1)),
    pid UInt32 COMMENT 'Process id on the host' CODEC(ZSTD(1)),
    created DateTime64(3, 'UTC') COMMENT 'When the process started; 1970-01-01 if unknown' CODEC(ZSTD(1)),
    duration_ms SimpleAggregateFunction(anyLast, Nullable(UInt32)) COMMENT 'Time with the process on the card [ms]' CODEC(ZSTD(1)),
    gpu_time_ms SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'GPU time attributed to the process; NULL for ignored processes [ms]' CODEC(ZSTD(1)),
    memory_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64)) COMMENT 'Device memory of the process on this card [By]' CODEC(ZSTD(1)),
    utilization SimpleAggregateFunction(anyLast, Nullable(UInt16))
        COMMENT 'Mean utilization by the process: the largest of kernels, encoder, decoder [1/10,000]' CODEC(ZSTD(1)),
    owner SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'User of the process' CODEC(ZSTD(1)),
    program SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'Process name (comm)' CODEC(ZSTD(1)),
    uid SimpleAggregateFunction(anyLast, Nullable(UInt32)) COMMENT 'Numeric user id' CODEC(ZSTD(1)),
    type SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'compute, graphics, mps or ignored' CODEC(ZSTD(1)),
    container_id SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'Container, from the cgroup' CODEC(ZSTD(1)),
    pod_uid SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'Kubernetes pod, from the cgroup' CODEC(ZSTD(1)),
    slurm_job_id SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'Slurm job, from the cgroup' CODEC(ZSTD(1)),
    systemd_unit SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'systemd unit, from the cgroup' CODEC(ZSTD(1)),
    workload_kind SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String)))
        COMMENT 'Declared or detected kind of work; NULL: by program name' CODEC(ZSTD(1)),
    workload_model SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String)))
        COMMENT 'Declared or detected served model' CODEC(ZSTD(1))
)
ENGINE = ${REPLICATED}AggregatingMergeTree
PARTITION BY toDate(ts)
ORDER BY (host, gpu, ts, pid, created)
$TICKS_TTL
$TABLE_SETTINGS
COMMENT 'One row per process, card and tick; read with FINAL'
