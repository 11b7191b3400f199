-- One row is one interval of a card in one UTC hour. It has consecutive ticks without a hole, in one state, with one share of the GPU.
-- Versions and the marker row of the host are as in gua.hourly_cards; an empty row has observed_ms 0.
CREATE TABLE IF NOT EXISTS gua.card_intervals${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the card is in',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance; empty for the marker row of the host',
    hour DateTime('UTC') COMMENT 'Start of the hour' CODEC(Delta, ZSTD(1)),
    end_ms Int64 COMMENT 'End of the last tick, as Unix time [ms]' CODEC(Delta, ZSTD(1)),
    written DateTime64(3, 'UTC') COMMENT 'Version of the row; the newest is valid' CODEC(Delta, ZSTD(1)),
${ROLLUP_COLUMNS},
    state UInt8 COMMENT '1 active, 2 idle-held, 3 truly-idle, 4 unknown' CODEC(ZSTD(1)),
    is_partitioned Bool COMMENT 'Whether it was a partitioned GPU, with its unallocated MIG slices' CODEC(ZSTD(1)),
    start_ms Int64 COMMENT 'Start of the first tick, as Unix time [ms]' CODEC(Delta, ZSTD(1)),
    first_span_ms UInt32 COMMENT 'Length of the first tick [ms]' CODEC(ZSTD(1)),
    last_span_ms UInt32 COMMENT 'Length of the last tick [ms]' CODEC(ZSTD(1)),
    observed_ms UInt64 COMMENT 'Observed time [ms]' CODEC(ZSTD(1)),
    gpu_us UInt64 COMMENT 'GPU time [us]' CODEC(GCD, ZSTD(1)),
    is_used Bool COMMENT 'Whether any engine or process was above 0 % in it' CODEC(ZSTD(1)),
    is_without_process Bool COMMENT 'Whether it was active without a process and held memory' CODEC(ZSTD(1))
)
ENGINE = ${REPLICATED}ReplacingMergeTree(written)
PARTITION BY toYYYYMM(hour)
ORDER BY (host, gpu, hour, end_ms)
$HOURS_TTL
$COUNTED_SETTINGS
COMMENT 'Intervals of cards in one state; read with FINAL, and only hours that are valid in gua.rollups'
