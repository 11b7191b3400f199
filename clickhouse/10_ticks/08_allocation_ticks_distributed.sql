-- One row is one of allocation_ticks${LOCAL} on the shard of its host.
CREATE TABLE IF NOT EXISTS gua.allocation_ticks $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'allocation_ticks${LOCAL}', cityHash64(host))
COMMENT 'One row per allocation, card and tick of all shards; read with FINAL'
