-- One row is one process on one card in one tick with its own state. Each shard works out those of its own hosts.
CREATE TABLE IF NOT EXISTS gua.process_states $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'process_states${LOCAL}', cityHash64(host))
COMMENT 'Every process tick of all shards with its state'
