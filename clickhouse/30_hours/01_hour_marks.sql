-- One row is one host in one UTC hour, and how often something arrived for it. The count only grows: an hour whose count is
-- not the one that gua.host_hours was made from has changed since, whatever order things became visible in.
CREATE TABLE IF NOT EXISTS gua.hour_marks${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'host.name of the sender',
    hour DateTime('UTC') COMMENT 'Start of the hour' CODEC(Delta, ZSTD(1)),
    marks SimpleAggregateFunction(sum, UInt64) COMMENT 'Inserts that held ticks of this hour' CODEC(ZSTD(1)),
    marked SimpleAggregateFunction(max, DateTime64(3, 'UTC'))
        COMMENT 'When the newest of them came, by the server''s clock' CODEC(Delta, ZSTD(1))
)
ENGINE = ${REPLICATED}AggregatingMergeTree
PARTITION BY toYYYYMM(hour)
ORDER BY (host, hour)
$HOURS_TTL
$TABLE_SETTINGS
COMMENT 'Number of inserts per host and hour'
