-- One row is one card, with its first and last tick.
CREATE TABLE IF NOT EXISTS gua.card_seen${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'host.name of the sender',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    first_seen SimpleAggregateFunction(min, DateTime64(3, 'UTC')) COMMENT 'Start of its first tick',
    last_seen SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'Newest tick',
    longest_ms SimpleAggregateFunction(max, UInt64) COMMENT 'Longest tick [ms]',
    newest_share SimpleAggregateFunction(max, Tuple(ts DateTime64(3, 'UTC'), share Float64)) COMMENT 'Newest share of a whole GPU'
)
ENGINE = ${REPLICATED}AggregatingMergeTree
ORDER BY (host, gpu)
$TABLE_SETTINGS
COMMENT 'First and last tick of each card; read with FINAL'
