-- One row is one of card_intervals${LOCAL} on the shard of its host.
CREATE TABLE IF NOT EXISTS gua.card_intervals $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'card_intervals${LOCAL}', cityHash64(host))
COMMENT 'Intervals of cards of all shards; read with FINAL'
