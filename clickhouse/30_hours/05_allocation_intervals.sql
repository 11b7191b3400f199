-- One row is one interval of an allocation on a card in one UTC hour, or of time without one (source is empty). It has consecutive ticks
-- without a hole, with one use. Versions and the marker row of the host are as in gua.hourly_cards; an empty row has gpu_us 0.
CREATE TABLE IF NOT EXISTS gua.allocation_intervals${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the card is in',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance; empty for the marker row of the host',
    source LowCardinality(String) COMMENT 'Source of the allocation; empty if unallocated or unknown',
    allocation_id LowCardinality(String) COMMENT 'Id of the allocation at its source',
    hour DateTime('UTC') COMMENT 'Start of the hour' CODEC(Delta, ZSTD(1)),
    end_ms Int64 COMMENT 'End of the last tick''s part, as Unix time [ms]' CODEC(Delta, ZSTD(1)),
    start_ms Int64 COMMENT 'Start of the first tick''s part, as Unix time [ms]' CODEC(Delta, ZSTD(1)),
    use UInt8 COMMENT '1 used, 2 held, 3 used-by-others, 4 empty, 5 unallocated-use, 6 free, 7 unknown' CODEC(ZSTD(1)),
    written DateTime64(3, 'UTC') COMMENT 'Version of the row; the newest is valid' CODEC(Delta, ZSTD(1)),
${ROLLUP_COLUMNS},
    owner LowCardinality(Nullable(String)) COMMENT 'Owner of the allocation' CODEC(ZSTD(1)),
    is_shared Bool COMMENT 'Whether processes of others ran besides the owner''s' CODEC(ZSTD(1)),
    first_span_ms UInt32 COMMENT 'Covered time of the first tick [ms]' CODEC(ZSTD(1)),
    last_span_ms UInt32 COMMENT 'Covered time of the last tick [ms]' CODEC(ZSTD(1)),
    observed_ms UInt64 COMMENT 'Observed time [ms]' CODEC(ZSTD(1)),
    gpu_us UInt64 COMMENT 'GPU time [us]' CODEC(GCD, ZSTD(1))
)
ENGINE = ${REPLICATED}ReplacingMergeTree(written)
PARTITION BY toYYYYMM(hour)
ORDER BY (host, gpu, source, allocation_id, hour, end_ms, start_ms, use)
$HOURS_TTL
$COUNTED_SETTINGS
COMMENT 'Intervals of allocations with one use; read with FINAL, and only hours that are valid in gua.rollups'
