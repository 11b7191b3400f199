-- One row is one of allocation_intervals${LOCAL} on the shard of its host.
CREATE TABLE IF NOT EXISTS gua.allocation_intervals $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'allocation_intervals${LOCAL}', cityHash64(host))
COMMENT 'Intervals of allocations of all shards; read with FINAL'
