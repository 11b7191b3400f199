-- One row is one card in one UTC hour and one state. Each shard works out the hours of its own hosts.
CREATE TABLE IF NOT EXISTS gua.card_hours $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'card_hours${LOCAL}', cityHash64(host))
COMMENT 'Hours of each card of all shards by state'
