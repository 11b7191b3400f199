-- One row is one allocation source of one host in one tick, and whether it was readable. Read with FINAL.
CREATE TABLE IF NOT EXISTS gua.allocation_source_ticks${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'host.name of the sender',
    source LowCardinality(String) COMMENT 'Allocation source: files, slurm, kubernetes, gua',
    ts DateTime64(3, 'UTC') COMMENT 'When it was read' CODEC(Delta, ZSTD(1)),
    duration_ms SimpleAggregateFunction(anyLast, Nullable(UInt32)) COMMENT 'Time that the tick covers [ms]' CODEC(ZSTD(1)),
    status SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'ok or failed' CODEC(ZSTD(1)),
    reason SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String))) COMMENT 'Error of a failed read' CODEC(ZSTD(1)),
    waiting SimpleAggregateFunction(anyLast, Nullable(UInt32))
        COMMENT 'Waiting requests at the end of the tick; NULL if unknown' CODEC(ZSTD(1)),
    wait_ms SimpleAggregateFunction(anyLast, Nullable(UInt64)) COMMENT 'Waiting time of all requests in the tick [ms]' CODEC(ZSTD(1)),
    waited_ms SimpleAggregateFunction(anyLast, Nullable(UInt32)) COMMENT 'Time with at least one waiting request [ms]' CODEC(ZSTD(1))
)
ENGINE = ${REPLICATED}AggregatingMergeTree
PARTITION BY toDate(ts)
ORDER BY (host, source, ts)
$TICKS_TTL
$TABLE_SETTINGS
COMMENT 'One row per allocation source and tick; read with FINAL'
