-- One row is one UTC day of the landing tables in another database, after all its points were read.
CREATE TABLE IF NOT EXISTS gua.backfilled_days $ON_CLUSTER
(
    landing LowCardinality(String) COMMENT 'Database of the landing tables',
    day Date COMMENT 'UTC day of the points',
    finished DateTime('UTC') DEFAULT now() COMMENT 'When the last of them was read'
)
ENGINE = ${REPLICATED}ReplacingMergeTree
ORDER BY (landing, day)
COMMENT 'Days of another landing database read by gua schema apply'
