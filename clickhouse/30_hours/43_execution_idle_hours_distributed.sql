-- One row is one card in one UTC hour and one state. Each shard works out the hours of its own hosts.
CREATE TABLE IF NOT EXISTS gua.execution_idle_hours $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'execution_idle_hours${LOCAL}', cityHash64(host))
COMMENT 'Idle seconds of each card of all shards while a program may be loaded, by hour'
