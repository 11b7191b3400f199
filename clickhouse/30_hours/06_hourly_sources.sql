-- One row is one allocation source of a host in one UTC hour. Versions are as in gua.hourly_cards. The row with an empty source marks the
-- hour as rolled up; an empty row has ok_ms 0 and failed_ms 0.
CREATE TABLE IF NOT EXISTS gua.hourly_sources${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host',
    source LowCardinality(String) COMMENT 'Source of allocations; empty for the marker row of the host',
    hour DateTime('UTC') COMMENT 'Start of the hour' CODEC(Delta, ZSTD(1)),
    written DateTime64(3, 'UTC') COMMENT 'Version of the row; the newest is valid' CODEC(Delta, ZSTD(1)),
${ROLLUP_COLUMNS},
    ok_ms UInt64 COMMENT 'Readable time [ms]' CODEC(ZSTD(1)),
    failed_ms UInt64 COMMENT 'Unreadable time [ms]' CODEC(ZSTD(1)),
    last_ms Int64 COMMENT 'Unix time of its newest tick [ms]' CODEC(ZSTD(1)),
    last_failed_ms Int64 COMMENT 'Unix time of the newest tick that failed; 0 if none did [ms]' CODEC(ZSTD(1)),
    reason LowCardinality(Nullable(String)) COMMENT 'Error of that tick' CODEC(ZSTD(1))
)
ENGINE = ${REPLICATED}ReplacingMergeTree(written)
PARTITION BY toYYYYMM(hour)
ORDER BY (host, source, hour)
$HOURS_TTL
$COUNTED_SETTINGS
COMMENT 'Hourly rollup of allocation sources; read with FINAL, and only hours that are valid in gua.rollups'
