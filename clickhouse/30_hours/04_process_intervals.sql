-- One row is one interval of a process on a card in one UTC hour. It has consecutive ticks without a hole, with the same states and
-- names. Versions and the marker row of the host are as in gua.hourly_cards; an empty row has observed_ms 0.
CREATE TABLE IF NOT EXISTS gua.process_intervals${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the card is in',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance; empty for the marker row of the host',
    pid UInt32 COMMENT 'Process id on the host' CODEC(ZSTD(1)),
    created_ms Int64 COMMENT 'When the process started, as Unix time; 0 if unknown [ms]' CODEC(ZSTD(1)),
    hour DateTime('UTC') COMMENT 'Start of the hour' CODEC(Delta, ZSTD(1)),
    end_ms Int64 COMMENT 'End of the last tick, as Unix time [ms]' CODEC(Delta, ZSTD(1)),
    written DateTime64(3, 'UTC') COMMENT 'Version of the row; the newest is valid' CODEC(Delta, ZSTD(1)),
${ROLLUP_COLUMNS},
    owner LowCardinality(Nullable(String)) COMMENT 'User of the process' CODEC(ZSTD(1)),
    program LowCardinality(Nullable(String)) COMMENT 'Process name' CODEC(ZSTD(1)),
    container_id LowCardinality(Nullable(String)) COMMENT 'Container' CODEC(ZSTD(1)),
    pod_uid LowCardinality(Nullable(String)) COMMENT 'Kubernetes pod' CODEC(ZSTD(1)),
    slurm_job_id LowCardinality(Nullable(String)) COMMENT 'Slurm job' CODEC(ZSTD(1)),
    systemd_unit LowCardinality(Nullable(String)) COMMENT 'systemd unit' CODEC(ZSTD(1)),
    state UInt8 COMMENT 'State of the process: 1 active, 2 idle, 3 unknown' CODEC(ZSTD(1)),
    card_state UInt8 COMMENT 'State of the card: 1 active, 2 idle-held, 3 truly-idle, 4 unknown' CODEC(ZSTD(1)),
    start_ms Int64 COMMENT 'Start of the first tick, as Unix time [ms]' CODEC(Delta, ZSTD(1)),
    first_span_ms UInt32 COMMENT 'Length of the first tick [ms]' CODEC(ZSTD(1)),
    last_span_ms UInt32 COMMENT 'Length of the last tick [ms]' CODEC(ZSTD(1)),
    observed_ms UInt64 COMMENT 'Observed time [ms]' CODEC(ZSTD(1)),
    gpu_us UInt64 COMMENT 'GPU time attributed to the process [us]' CODEC(GCD, ZSTD(1)),
    memory_kib_ms UInt64 COMMENT 'Memory x time while the card was idle-held, where memory is known [KiB ms]' CODEC(ZSTD(1)),
    memory_known_ms UInt64 COMMENT 'Observed time of memory_kib_ms [ms]' CODEC(ZSTD(1)),
    memory_bytes Nullable(UInt64) COMMENT 'Memory in the last tick; NULL if unknown [By]' CODEC(ZSTD(1))
)
ENGINE = ${REPLICATED}ReplacingMergeTree(written)
PARTITION BY toYYYYMM(hour)
ORDER BY (host, gpu, pid, created_ms, hour, end_ms)
$HOURS_TTL
$COUNTED_SETTINGS
COMMENT 'Intervals of processes in one state; read with FINAL, and only hours that are valid in gua.rollups'
