-- One row is one allocation of one card in one tick. Rows merge as in gua.card_ticks. Read with FINAL.
CREATE TABLE IF NOT EXISTS gua.allocation_ticks${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'host.name of the sender',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    ts DateTime64(3, 'UTC') COMMENT 'End of the tick' CODEC(Delta, ZSTD(1)),
    source LowCardinality(String) COMMENT 'Allocation source: slurm, kubernetes, gua, or the name in a file',
    allocation_id LowCardinality(String) COMMENT 'Id at the source: of a job or pod',
    duration_ms SimpleAggregateFunction(anyLast, Nullable(UInt32)) COMMENT 'Time that the allocation covers [ms]' CODEC(ZSTD(1)),
    gpu_time_ms SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Allocated GPU time of the tick; simultaneous allocations have equal parts [ms]' CODEC(ZSTD(1)),
    relation SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String)))
        COMMENT 'Processes there: owner, both, others, co-owners, nobody, sole, unknown' CODEC(ZSTD(1)),
    owner SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'Owner of the allocation' CODEC(ZSTD(1)),
    uid SimpleAggregateFunction(anyLast, Nullable(UInt32)) COMMENT 'Numeric user id' CODEC(ZSTD(1)),
    kind SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'Kind of allocation at the source' CODEC(ZSTD(1)),
    since SimpleAggregateFunction(anyLast, Nullable(DateTime64(3, 'UTC'))) COMMENT 'When it began' CODEC(ZSTD(1)),
    until SimpleAggregateFunction(anyLast, Nullable(DateTime64(3, 'UTC'))) COMMENT 'When it ends; NULL if unknown' CODEC(ZSTD(1)),
    job_name SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'Name of the job' CODEC(ZSTD(1)),
    pod_uid SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'Kubernetes pod' CODEC(ZSTD(1)),
    pod_name SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'Name of the pod' CODEC(ZSTD(1)),
    pod_namespace SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'Namespace of the pod' CODEC(ZSTD(1)),
    workload_kind SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String)))
        COMMENT 'Declared kind of work, else that of its owner''s processes' CODEC(ZSTD(1)),
    workload_model SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String)))
        COMMENT 'Declared served model, else that of its owner''s processes' CODEC(ZSTD(1))
)
ENGINE = ${REPLICATED}AggregatingMergeTree
PARTITION BY toDate(ts)
ORDER BY (host, gpu, ts, source, allocation_id)
$TICKS_TTL
$TABLE_SETTINGS
COMMENT 'One row per allocation, card and tick; read with FINAL'
