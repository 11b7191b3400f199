-- One row is one of process_intervals${LOCAL} on the shard of its host.
CREATE TABLE IF NOT EXISTS gua.process_intervals $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'process_intervals${LOCAL}', cityHash64(host))
COMMENT 'Intervals of processes of all shards; read with FINAL'
