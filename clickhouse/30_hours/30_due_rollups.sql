-- One row is one hour of a host to roll up. Nothing is stored: a row starts the chain of views that roll up the hour, table by table,
-- each started by the row of the host in the table before. gua.rollups comes last, so an hour counts once all its tables have it.
CREATE TABLE IF NOT EXISTS gua.due_rollups $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host',
    hour DateTime('UTC') COMMENT 'Start of the hour',
    marks UInt64 COMMENT 'Inserts that held ticks of this hour',
    fingerprint UInt64 COMMENT 'Rules in force'
)
ENGINE = Null
COMMENT 'Starts the rollup of hours; stores nothing'
