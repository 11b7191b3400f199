-- One row is one of card_info${LOCAL} on the shard of its host.
CREATE TABLE IF NOT EXISTS gua.card_info $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'card_info${LOCAL}', cityHash64(host))
COMMENT 'What each card of all shards is, as last seen; read with FINAL'
