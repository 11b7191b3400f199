-- One row is one of hourly_sources${LOCAL} on the shard of its host.
CREATE TABLE IF NOT EXISTS gua.hourly_sources $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'hourly_sources${LOCAL}', cityHash64(host))
COMMENT 'Hourly rollup of allocation sources of all shards; read with FINAL'
