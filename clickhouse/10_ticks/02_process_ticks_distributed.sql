-- One row is one of process_ticks${LOCAL} on the shard of its host.
CREATE TABLE IF NOT EXISTS gua.process_ticks $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'process_ticks${LOCAL}', cityHash64(host))
COMMENT 'One row per process, card and tick of all shards; read with FINAL'
