-- One row is one of card_seen${LOCAL} on the shard of its host.
CREATE TABLE IF NOT EXISTS gua.card_seen $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'card_seen${LOCAL}', cityHash64(host))
COMMENT 'First and last sight of each card of all shards; read with FINAL'
