-- One row is one completed run of gua schema apply.
-- Shard key: version
CREATE TABLE IF NOT EXISTS gua.schema_versions${LOCAL} $ON_CLUSTER
(
    version UInt32 COMMENT 'Version of the schema',
    digest String COMMENT 'Fingerprint of the statements',
    applied DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'Time of the run'
)
ENGINE = ${REPLICATED}MergeTree
ORDER BY applied
$TABLE_SETTINGS
COMMENT 'Applied versions of the schema; the newest is valid'
