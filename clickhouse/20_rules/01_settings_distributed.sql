-- One row is one setting that somebody changed. Every shard reads this table, so all go by the same rules.
CREATE TABLE IF NOT EXISTS gua.settings $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'settings${LOCAL}', cityHash64(key))
COMMENT 'Settings of the rules; they apply to the whole window of a report'
