-- One row is one allocation of one card in one tick. Rows merge as in gua.card_ticks. Read with FINAL.
CREATE TABLE IF NOT EXISTS gua.allocation_ticks${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'host.name of the sender',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    ts DateTime64(3, 'UTC') COMMENT 'When the card was read' CODEC(Delta, ZSTD(1)),
    source LowCardinality(String) COMMENT 'Who says so: slurm, kubernetes, gua, or what a file says',
    allocation_id LowCardinality(String) COMMENT 'What the source calls the allocation: a job, a pod',
    duration_ms SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Seconds of the tick that the allocation covers [ms]' CODEC(ZSTD(1)),
    gpu_time_ms SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'GPU time of the tick promised by it; where several allocations cover the same time, equal parts [ms]' CODEC(ZSTD(1)),
    relation SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String)))
        COMMENT 'Whose processes were on the card: owner, both, others, co-owners, nobody, unknown' CODEC(ZSTD(1)),
    owner SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'User that it belongs to' CODEC(ZSTD(1)),
    uid SimpleAggregateFunction(anyLast, Nullable(UInt32)) COMMENT 'Numeric user id' CODEC(ZSTD(1)),
    kind SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'What it is, as the source says' CODEC(ZSTD(1)),
    since SimpleAggregateFunction(anyLast, Nullable(DateTime64(3, 'UTC'))) COMMENT 'When it began' CODEC(ZSTD(1)),
    until SimpleAggregateFunction(anyLast, Nullable(DateTime64(3, 'UTC'))) COMMENT 'When it ends; NULL if nobody says' CODEC(ZSTD(1)),
    job_name SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'Name of the job' CODEC(ZSTD(1)),
    pod_uid SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'Kubernetes pod' CODEC(ZSTD(1)),
    pod_name SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'Name of the pod' CODEC(ZSTD(1)),
    pod_namespace SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'Namespace of the pod' CODEC(ZSTD(1)),
    workload_kind SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String)))
        COMMENT 'Kind of work: as declared, else of its owner''s processes on the card' CODEC(ZSTD(1)),
    workload_model SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String)))
        COMMENT 'Served model: as declared, else of its owner''s processes on the card' CODEC(ZSTD(1))
)
ENGINE = ${REPLICATED}AggregatingMergeTree
PARTITION BY toDate(ts)
ORDER BY (host, gpu, ts, source, allocation_id)
$TICKS_TTL
$TABLE_SETTINGS
COMMENT 'One row per allocation, card and tick; read with FINAL'
