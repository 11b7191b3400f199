-- One row is one host in one UTC hour with the number of inserts for it. The number only grows. A rollup is stale if gua.rollups has
-- another number, in whatever order rows became visible.
CREATE TABLE IF NOT EXISTS gua.hour_marks${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'host.name of the sender',
    hour DateTime('UTC') COMMENT 'Start of the hour' CODEC(Delta, ZSTD(1)),
    marks SimpleAggregateFunction(sum, UInt64) COMMENT 'Inserts with ticks of this hour' CODEC(ZSTD(1)),
    marked SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'Last insert, by server clock' CODEC(Delta, ZSTD(1))
)
ENGINE = ${REPLICATED}AggregatingMergeTree
PARTITION BY toYYYYMM(hour)
ORDER BY (host, hour)
$HOURS_TTL
$TABLE_SETTINGS
COMMENT 'Inserts per host and hour'
