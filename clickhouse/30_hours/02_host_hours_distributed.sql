-- One row is one of host_hours${LOCAL} on the shard of its host.
CREATE TABLE IF NOT EXISTS gua.host_hours $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'host_hours${LOCAL}', cityHash64(host))
COMMENT 'Counted hours of all shards; read with FINAL, and only where gua.hour_marks says that they still hold'
