-- One row is one of card_ticks${LOCAL} on the shard of its host.
CREATE TABLE IF NOT EXISTS gua.card_ticks $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'card_ticks${LOCAL}', cityHash64(host))
COMMENT 'One row per card and tick of all shards; read with FINAL'
