-- One row is one host on one UTC day of the server's clock, with its points that were refused because of their time.
CREATE TABLE IF NOT EXISTS gua.refused_points${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'host.name of the sender',
    day Date COMMENT 'UTC day of reception, by server clock',
    reason LowCardinality(String) COMMENT 'ahead: more than a day ahead of the server''s clock; before-2000',
    points SimpleAggregateFunction(sum, UInt64) COMMENT 'Refused points; a repeated point counts again',
    newest SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'Newest time of the points'
)
ENGINE = ${REPLICATED}AggregatingMergeTree
ORDER BY (host, day, reason)
$TABLE_SETTINGS
COMMENT 'Rejected points with impossible times; read with FINAL'
