-- One row is one hour of a host to roll up. The table stores nothing: an insert starts a chain of materialized views, one for each rollup
-- table. Each view reacts to the marker row of the host in the table before. gua.rollups is the last one, so an hour is valid only when all
-- tables have it.
CREATE TABLE IF NOT EXISTS gua.due_rollups $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host',
    hour DateTime('UTC') COMMENT 'Start of the hour',
    marks UInt64 COMMENT 'Inserts with ticks of this hour',
    fingerprint UInt64 COMMENT 'Fingerprint of the rules in force'
)
ENGINE = Null
COMMENT 'Starts the rollup of hours; stores nothing'
