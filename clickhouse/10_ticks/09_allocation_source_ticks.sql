-- One row is one allocation source of one host in one tick, and whether it was readable. Read with FINAL.
CREATE TABLE IF NOT EXISTS gua.allocation_source_ticks${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'host.name of the sender',
    source LowCardinality(String) COMMENT 'What is read: files, slurm, kubernetes, gua',
    ts DateTime64(3, 'UTC') COMMENT 'When it was looked at' CODEC(Delta, ZSTD(1)),
    duration_ms SimpleAggregateFunction(anyLast, Nullable(UInt32)) COMMENT 'Seconds that the tick covers [ms]' CODEC(ZSTD(1)),
    status SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'ok or failed' CODEC(ZSTD(1)),
    reason SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'Why it could not be read' CODEC(ZSTD(1)),
    waiting SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Requests that wait for cards at the end of the tick; NULL of a source that does not tell' CODEC(ZSTD(1)),
    wait_ms SimpleAggregateFunction(anyLast, Nullable(UInt64))
        COMMENT 'How long requests for cards waited in the tick, all of them together [ms]' CODEC(ZSTD(1)),
    waited_ms SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'How much of the tick at least one request waited for cards [ms]' CODEC(ZSTD(1))
)
ENGINE = ${REPLICATED}AggregatingMergeTree
PARTITION BY toDate(ts)
ORDER BY (host, source, ts)
$TICKS_TTL
$TABLE_SETTINGS
COMMENT 'One row per source of allocations and tick; read with FINAL'
