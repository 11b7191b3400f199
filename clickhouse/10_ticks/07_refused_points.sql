-- One row is one host on one UTC day of the server's clock, with its points that were refused because of their time.
CREATE TABLE IF NOT EXISTS gua.refused_points${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'host.name that the sender gives',
    day Date COMMENT 'UTC day on which the points came, by the server''s clock',
    reason LowCardinality(String) COMMENT 'ahead: more than a day ahead of the server''s clock; before-2000',
    points SimpleAggregateFunction(sum, UInt64) COMMENT 'Points refused; one that is sent again counts again',
    newest SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'Newest time that they gave'
)
ENGINE = ${REPLICATED}AggregatingMergeTree
ORDER BY (host, day, reason)
$TABLE_SETTINGS
COMMENT 'Rejected points with impossible times; read with FINAL'
