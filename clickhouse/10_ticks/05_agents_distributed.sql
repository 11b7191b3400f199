-- One row is one of agents${LOCAL} on the shard of its host.
CREATE TABLE IF NOT EXISTS gua.agents $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'agents${LOCAL}', cityHash64(host))
COMMENT 'When each agent of all shards was heard; read with FINAL'
