-- One row is one of hourly_cards${LOCAL} on the shard of its host.
CREATE TABLE IF NOT EXISTS gua.hourly_cards $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'hourly_cards${LOCAL}', cityHash64(host))
COMMENT 'Hourly rollup of cards of all shards; read with FINAL'
