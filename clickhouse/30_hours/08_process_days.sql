-- One row is the time of a process on a card in one UTC day with one set of names: its hourly intervals, merged. Where its names change and
-- change back, that are several rows. Idle time before the first break and after the last one merges with the days beside it; a break is an
-- active interval or a gap. Versions are as in gua.hourly_cards. The marker row of the host has an empty gpu and the merged rollups; an
-- empty row has end_ms 0.
CREATE TABLE IF NOT EXISTS gua.process_days${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the card is in',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance; empty for the marker row of the host',
    pid UInt32 COMMENT 'Process id on the host' CODEC(ZSTD(1)),
    created_ms Int64 COMMENT 'When the process started, as Unix time; 0 if unknown [ms]' CODEC(ZSTD(1)),
    day DateTime('UTC') COMMENT 'Start of the day' CODEC(Delta, ZSTD(1)),
    start_ms Int64 COMMENT 'Start of the first tick, as Unix time [ms]' CODEC(Delta, ZSTD(1)),
    written DateTime64(3, 'UTC') COMMENT 'Version of the row; the newest is valid' CODEC(Delta, ZSTD(1)),
    rollups UInt16 COMMENT 'Rolled-up hours of the day, in the marker row of the host' CODEC(ZSTD(1)),
    rollups_written_ms UInt64 COMMENT 'Sum of the versions of these rollups [ms]' CODEC(ZSTD(1)),
    owner LowCardinality(Nullable(String)) COMMENT 'User of the process' CODEC(ZSTD(1)),
    program LowCardinality(Nullable(String)) COMMENT 'Process name' CODEC(ZSTD(1)),
    container_id LowCardinality(Nullable(String)) COMMENT 'Container' CODEC(ZSTD(1)),
    pod_uid LowCardinality(Nullable(String)) COMMENT 'Kubernetes pod' CODEC(ZSTD(1)),
    slurm_job_id LowCardinality(Nullable(String)) COMMENT 'Slurm job' CODEC(ZSTD(1)),
    systemd_unit LowCardinality(Nullable(String)) COMMENT 'systemd unit' CODEC(ZSTD(1)),
    end_ms Int64 COMMENT 'End of the last tick, as Unix time [ms]' CODEC(Delta, ZSTD(1)),
    first_span_ms UInt32 COMMENT 'Length of the first tick [ms]' CODEC(ZSTD(1)),
    last_span_ms UInt32 COMMENT 'Length of the last tick [ms]' CODEC(ZSTD(1)),
    last_state UInt8 COMMENT 'State of the process in the last tick: 1 active, 2 idle, 3 unknown' CODEC(ZSTD(1)),
    memory_bytes Nullable(UInt64) COMMENT 'Memory in the last tick; NULL if unknown [By]' CODEC(ZSTD(1)),
    held_ms UInt64 COMMENT 'Observed time while the card was not truly-idle [ms]' CODEC(ZSTD(1)),
    active_us UInt64 COMMENT 'GPU time attributed to the process while the card was active [us]' CODEC(GCD, ZSTD(1)),
    idle_held_us UInt64 COMMENT 'GPU time attributed to the process while the card was idle-held [us]' CODEC(GCD, ZSTD(1)),
    unknown_us UInt64 COMMENT 'GPU time attributed to the process while the card''s state was unknown [us]' CODEC(GCD, ZSTD(1)),
    memory_kib_ms UInt64 COMMENT 'Memory x time while the card was idle-held, where memory is known [KiB ms]' CODEC(ZSTD(1)),
    memory_known_ms UInt64 COMMENT 'Observed time of memory_kib_ms [ms]' CODEC(ZSTD(1)),
    known_until_ms Int64 COMMENT 'End of the last active or idle interval, as Unix time; 0 if all are unknown [ms]' CODEC(Delta, ZSTD(1)),
    longest_idle_ms UInt64 COMMENT 'Longest idle streak within the row [ms]' CODEC(ZSTD(1)),
    has_break Bool COMMENT 'Whether a streak ends within the row' CODEC(ZSTD(1)),
    head_idle_ms UInt64 COMMENT 'Idle time before the first break [ms]' CODEC(ZSTD(1)),
    head_since_ms Int64 COMMENT 'Start of that idle time, as Unix time; 0 if there is none [ms]' CODEC(Delta, ZSTD(1)),
    head_first_span_ms UInt32 COMMENT 'Length of its first tick [ms]' CODEC(ZSTD(1)),
    tail_idle_ms UInt64 COMMENT 'Idle time after the last break [ms]' CODEC(ZSTD(1)),
    tail_since_ms Int64 COMMENT 'Start of that idle time, as Unix time; 0 if there is none [ms]' CODEC(Delta, ZSTD(1)),
    tail_first_span_ms UInt32 COMMENT 'Length of its first tick [ms]' CODEC(ZSTD(1)),
    tail_known_before_ms Int64 COMMENT 'End of the last known interval before tail_since_ms; 0: none [ms]' CODEC(Delta, ZSTD(1))
)
ENGINE = ${REPLICATED}ReplacingMergeTree(written)
PARTITION BY toYYYYMM(day)
ORDER BY (host, gpu, pid, created_ms, day, start_ms)
$DAYS_TTL
$COUNTED_SETTINGS
COMMENT 'Days of processes; read with FINAL, and only days whose rollups did not change since'
