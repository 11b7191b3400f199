-- One row is one process on one card in one tick. Parts merge as in card_ticks. Read with FINAL.
CREATE TABLE IF NOT EXISTS gua.process_ticks $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'host.name of the sender',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    ts DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)) COMMENT 'When the card was read',
    pid UInt32 CODEC(ZSTD(1)) COMMENT 'Process id on the host',
    created DateTime64(3, 'UTC') CODEC(ZSTD(1)) COMMENT 'When the process started; 1970-01-01 if unknown',
    duration_ms SimpleAggregateFunction(anyLast, Nullable(UInt32)) CODEC(ZSTD(1)) COMMENT 'Seconds of the tick in which this process was on the card [ms]',
    gpu_time_ms SimpleAggregateFunction(anyLast, Nullable(UInt32)) CODEC(ZSTD(1)) COMMENT 'The part of the card''s GPU time attributed to this process; absent for ignored processes [ms]',
    memory_bytes SimpleAggregateFunction(anyLast, Nullable(UInt64)) CODEC(ZSTD(1)) COMMENT 'Device memory of the process on this card [By]',
    utilization SimpleAggregateFunction(anyLast, Nullable(UInt16)) CODEC(ZSTD(1)) COMMENT 'Mean over the tick of the share of time in which kernels of this process ran on the card, 0 to 1 [1/10,000]',
    owner SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'User the process runs as',
    program SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'Process name (comm)',
    uid SimpleAggregateFunction(anyLast, Nullable(UInt32)) CODEC(ZSTD(1)) COMMENT 'Numeric user id',
    type SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'compute, graphics, mps, or ignored by the rules',
    container_id SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'Container, from the cgroup',
    pod_uid SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'Kubernetes pod, from the cgroup',
    slurm_job_id SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'Slurm job, from the cgroup',
    systemd_unit SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'systemd unit, from the cgroup'
)
ENGINE = ${REPLICATED}AggregatingMergeTree
PARTITION BY toDate(ts)
ORDER BY (host, gpu, ts, pid, created)
$TICKS_TTL
COMMENT 'One row per process, card and tick; read with FINAL'
