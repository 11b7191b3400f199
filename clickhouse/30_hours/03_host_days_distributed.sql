-- One row is one of host_days${LOCAL} on the shard of its host.
CREATE TABLE IF NOT EXISTS gua.host_days $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'host_days${LOCAL}', cityHash64(host))
COMMENT 'Days of all shards; read with FINAL, and only where gua.hour_marks says that they still hold'
