-- One row is one source of allocations of one host in one tick: whether it could be read. Read with FINAL.
CREATE TABLE IF NOT EXISTS gua.allocation_source_ticks${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'host.name of the sender',
    source LowCardinality(String) COMMENT 'What is read: files, slurm, kubernetes, gua',
    ts DateTime64(3, 'UTC') COMMENT 'When it was looked at' CODEC(Delta, ZSTD(1)),
    duration_ms SimpleAggregateFunction(anyLast, Nullable(UInt32)) COMMENT 'Seconds that the tick covers [ms]' CODEC(ZSTD(1)),
    status SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'ok or failed' CODEC(ZSTD(1)),
    reason SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'Why it could not be read' CODEC(ZSTD(1))
)
ENGINE = ${REPLICATED}AggregatingMergeTree
PARTITION BY toDate(ts)
ORDER BY (host, source, ts)
$TICKS_TTL
$NO_DEDUPLICATION
COMMENT 'One row per source of allocations and tick; read with FINAL'
