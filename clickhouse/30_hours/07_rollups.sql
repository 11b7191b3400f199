-- One row is one host in one UTC hour that was rolled up, and from what. Rows of the hour in the other tables count only while
-- gua.hour_marks has the same marks and the rules are the same.
CREATE TABLE IF NOT EXISTS gua.rollups${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host',
    hour DateTime('UTC') COMMENT 'Start of the hour' CODEC(Delta, ZSTD(1)),
    written DateTime64(3, 'UTC') COMMENT 'Version of the row; the newest counts' CODEC(Delta, ZSTD(1)),
${ROLLUP_COLUMNS},
    ticks UInt64 COMMENT 'Card ticks' CODEC(ZSTD(1))
)
ENGINE = ${REPLICATED}ReplacingMergeTree(written)
PARTITION BY toYYYYMM(hour)
ORDER BY (host, hour)
$HOURS_TTL
$COUNTED_SETTINGS
COMMENT 'Hours that were rolled up; read with FINAL'
