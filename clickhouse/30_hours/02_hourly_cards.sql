-- One row is one card in one UTC hour and one state, rolled up from its ticks. A tick belongs to the hour of its end less 1 ms. An hour
-- of a host is replaced as a whole; the newest version of a row counts. Empty rows (0 ticks) replace rows without ticks. The row with an
-- empty gpu marks the hour as rolled up, and has the marks and rules used.
CREATE TABLE IF NOT EXISTS gua.hourly_cards${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the card is in',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance; empty for the marker row of the host',
    hour DateTime('UTC') COMMENT 'Start of the hour' CODEC(Delta, ZSTD(1)),
    state UInt8 COMMENT '1 active, 2 idle-held, 3 truly-idle; unknown by 4 lost, 5 utilization, 6 pid_namespace, 7 processes, 8 memory',
    is_partitioned Bool COMMENT 'Whether it was a partitioned GPU, with its unallocated MIG slices' CODEC(ZSTD(1)),
    written DateTime64(3, 'UTC') COMMENT 'Version of the row; the newest is valid' CODEC(Delta, ZSTD(1)),
${ROLLUP_COLUMNS},
    ticks UInt32 COMMENT 'Ticks' CODEC(ZSTD(1)),
    gpu_us UInt64 COMMENT 'GPU time [us]' CODEC(GCD, ZSTD(1)),
    observed_ms UInt64 COMMENT 'Observed time [ms]' CODEC(ZSTD(1)),
    interval_ms UInt32 COMMENT 'Longest nominal sampling interval; 0 if none is known [ms]' CODEC(ZSTD(1)),
    quarter_ticks Array(UInt32) COMMENT 'Ticks by quarter of the hour' CODEC(ZSTD(1)),
    quarter_gpu_us Array(UInt64) COMMENT 'GPU time by quarter of the hour [us]' CODEC(GCD, ZSTD(1)),
    measured_mj UInt64 COMMENT 'Energy by the card''s counter [mJ]' CODEC(ZSTD(1)),
    measured_ms UInt64 COMMENT 'Observed time of measured_mj [ms]' CODEC(ZSTD(1)),
    estimated_mj UInt64 COMMENT 'Energy of ticks without a counter''s value, as power x time [mJ]' CODEC(ZSTD(1)),
    estimated_ms UInt64 COMMENT 'Observed time of estimated_mj [ms]' CODEC(ZSTD(1)),
    sampled_us UInt64 COMMENT 'GPU time covered by utilization samples [us]' CODEC(ZSTD(1)),
    idle_us UInt64 COMMENT 'Part of sampled_us below the threshold of active [us]' CODEC(ZSTD(1)),
    powered_us UInt64 COMMENT 'Part of idle_us covered by power samples [us]' CODEC(ZSTD(1)),
    idle_mj UInt64 COMMENT 'Energy of powered_us [mJ]' CODEC(ZSTD(1)),
    listed_us UInt64 COMMENT 'Active GPU time in which it is known whether a process was there [us]' CODEC(ZSTD(1)),
    without_process_us UInt64 COMMENT 'Part of listed_us without a process and held memory [us]' CODEC(ZSTD(1)),
    activity_us Array(UInt64) COMMENT 'Active GPU time with known activity of SMs, occupancy, tensor, memory [us]' CODEC(ZSTD(1)),
    activity_weighted Array(UInt64) COMMENT 'activity_us x activity [us/200]' CODEC(ZSTD(1)),
    activity_low_us Array(UInt64) COMMENT 'Part of activity_us below 10 % [us]' CODEC(ZSTD(1)),
    limit_bytes Nullable(UInt64) COMMENT 'Least memory in total; NULL if unknown [By]' CODEC(ZSTD(1)),
    reserved_bytes Nullable(UInt64) COMMENT 'Most memory reserved by the driver; NULL if unknown [By]' CODEC(ZSTD(1)),
    is_instance Bool COMMENT 'Whether it was a MIG instance' CODEC(ZSTD(1)),
    is_shared Bool COMMENT 'Whether it used the host''s memory' CODEC(ZSTD(1)),
    clocks_ms UInt64 COMMENT 'Observed time with known clocks event reasons [ms]' CODEC(ZSTD(1)),
    heat_ms UInt64 COMMENT 'Part of clocks_ms slowed by heat [ms]' CODEC(ZSTD(1)),
    power_cap_ms UInt64 COMMENT 'Part of clocks_ms slowed by the power cap [ms]' CODEC(ZSTD(1)),
    hardware_ms UInt64 COMMENT 'Part of clocks_ms slowed by hardware [ms]' CODEC(ZSTD(1)),
    slowed_ms UInt64 COMMENT 'Part of clocks_ms slowed by heat or hardware [ms]' CODEC(ZSTD(1)),
    xid_errors Nullable(UInt64) COMMENT 'XID events; NULL if unknown [{error}]' CODEC(ZSTD(1)),
    xid Nullable(UInt16) COMMENT 'Number of the newest XID event; NULL: none' CODEC(ZSTD(1)),
    xid_at_ms Int64 COMMENT 'Unix time of the tick that reported it; 0 if none did [ms]' CODEC(ZSTD(1)),
    ecc_errors Nullable(UInt64) COMMENT 'Uncorrected ECC errors; NULL if unknown [{error}]' CODEC(ZSTD(1)),
    row_remap Nullable(UInt8) COMMENT 'Newest row remapping, as in gua.card_ticks; NULL if unknown' CODEC(ZSTD(1)),
    row_remap_at_ms Int64 COMMENT 'Unix time of the tick that reported it; 0 if none did [ms]' CODEC(ZSTD(1)),
    recovery_action Nullable(UInt32) COMMENT 'Newest recovery action, as in gua.card_ticks; NULL if unknown' CODEC(ZSTD(1)),
    recovery_at_ms Int64 COMMENT 'Unix time of the tick that reported it; 0 if none did [ms]' CODEC(ZSTD(1)),
    recovery_ms UInt64 COMMENT 'Observed time in which a recovery action was needed [ms]' CODEC(ZSTD(1)),
    whole_bytes Nullable(UInt64) COMMENT 'Most memory of a partitioned GPU and its instances in a tick; else NULL [By]' CODEC(ZSTD(1))
)
ENGINE = ${REPLICATED}ReplacingMergeTree(written)
PARTITION BY toYYYYMM(hour)
ORDER BY (host, gpu, hour, state, is_partitioned)
$HOURS_TTL
$COUNTED_SETTINGS
COMMENT 'Hourly rollup of cards; read with FINAL, and only hours that are valid in gua.rollups'
