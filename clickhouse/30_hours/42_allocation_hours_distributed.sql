-- One row is one use of one card in one UTC hour, by owner and source. Each shard works out the hours of its own hosts.
CREATE TABLE IF NOT EXISTS gua.allocation_hours $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'allocation_hours${LOCAL}', cityHash64(host))
COMMENT 'Hours of each card of all shards by what became of what was promised'
