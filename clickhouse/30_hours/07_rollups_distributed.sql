-- One row is one of rollups${LOCAL} on the shard of its host.
CREATE TABLE IF NOT EXISTS gua.rollups $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'rollups${LOCAL}', cityHash64(host))
COMMENT 'Hours of all shards that were rolled up; read with FINAL'
