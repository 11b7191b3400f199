-- One row is one owner and program on one card in one UTC hour. Each shard works out the hours of its own hosts.
CREATE TABLE IF NOT EXISTS gua.owner_hours $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'owner_hours${LOCAL}', cityHash64(host))
COMMENT 'Hours of each owner and program on each card of all shards'
