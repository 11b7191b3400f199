-- One row is one card in one tick with its state. Each shard works out the states of its own hosts.
CREATE TABLE IF NOT EXISTS gua.card_states $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'card_states${LOCAL}', cityHash64(host))
COMMENT 'Every card tick of all shards with its state'
