-- One row is one of refused_points${LOCAL} on the shard of its host.
CREATE TABLE IF NOT EXISTS gua.refused_points $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'refused_points${LOCAL}', cityHash64(host))
COMMENT 'Points of all shards that were not taken, as their time cannot be; read with FINAL'
