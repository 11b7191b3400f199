-- One row is one of hour_marks${LOCAL} on the shard of its host.
CREATE TABLE IF NOT EXISTS gua.hour_marks $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'hour_marks${LOCAL}', cityHash64(host))
COMMENT 'Which hours have ticks on any shard, and which changed since they were counted'
