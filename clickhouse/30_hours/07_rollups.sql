-- One row is one rolled-up UTC hour of one host. Its rows in the other tables are valid while gua.hour_marks has the same marks and the
-- rules are the same.
CREATE TABLE IF NOT EXISTS gua.rollups${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host',
    hour DateTime('UTC') COMMENT 'Start of the hour' CODEC(Delta, ZSTD(1)),
    written DateTime64(3, 'UTC') COMMENT 'Version of the row; the newest is valid' CODEC(Delta, ZSTD(1)),
${ROLLUP_COLUMNS},
    ticks UInt64 COMMENT 'Card ticks' CODEC(ZSTD(1))
)
ENGINE = ${REPLICATED}ReplacingMergeTree(written)
PARTITION BY toYYYYMM(hour)
ORDER BY (host, hour)
$HOURS_TTL
$COUNTED_SETTINGS
COMMENT 'Hours that were rolled up; read with FINAL'
