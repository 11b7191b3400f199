-- One row is one setting of the rules that somebody changed from the shipped default (the view gua.rules has all).
-- Shard key: key
CREATE TABLE IF NOT EXISTS gua.settings${LOCAL} $ON_CLUSTER
(
    key LowCardinality(String) COMMENT 'Name of the setting',
    value Float64 COMMENT 'Its value: a ratio, or bytes',
    changed DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When it was set; the newest counts'
)
ENGINE = ${REPLICATED}ReplacingMergeTree(changed)
ORDER BY key
$TABLE_SETTINGS
COMMENT 'Settings of the rules; they apply to the whole window of a report'
