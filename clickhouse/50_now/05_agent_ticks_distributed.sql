-- One row is what one agent said of itself in one tick. Each shard tells it of its own hosts.
CREATE TABLE IF NOT EXISTS gua.agent_ticks $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'agent_ticks${LOCAL}', cityHash64(host))
COMMENT 'What agents of all shards said of themselves, as long as raw points are kept'
