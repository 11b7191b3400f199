-- One row is a part of a card tick, with what became of it. Each shard works out those of its own hosts.
CREATE TABLE IF NOT EXISTS gua.allocation_states $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'allocation_states${LOCAL}', cityHash64(host))
COMMENT 'Every card tick of all shards by what became of what was promised'
