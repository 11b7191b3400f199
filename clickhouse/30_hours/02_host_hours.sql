-- One row is one host in one UTC hour, whole: its cards by state, and who held them. It is made again from the ticks when
-- they changed, never added to, and the newest row counts, so late and repeated ticks come out exact.
-- One row, not one for each card: what is replaced is replaced at once, and a year is read in a blink.
CREATE TABLE IF NOT EXISTS gua.host_hours${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the cards are in',
    hour DateTime('UTC') COMMENT 'Start of the hour; a tick belongs to the hour of its end less 1 ms' CODEC(Delta, ZSTD(1)),
    marks UInt64 COMMENT 'The count of gua.hour_marks that was seen before the ticks were read' CODEC(ZSTD(1)),
    fingerprint UInt64 COMMENT 'The rules that states were judged by (gua_report.rules_fingerprint)' CODEC(ZSTD(1)),
    written DateTime64(3, 'UTC') COMMENT 'When the row was made; the newest counts' CODEC(Delta, ZSTD(1)),
    first_ms Int64 COMMENT 'Start of the first tick, as Unix time [ms]' CODEC(Delta, ZSTD(1)),
    cards_key UInt64 COMMENT 'Hash of the names of the cards, in order' CODEC(ZSTD(1)),
    interval_ms UInt32 COMMENT 'Longest nominal interval; 0 if none is known [ms]' CODEC(ZSTD(1)),
    starts_ms Array(Int64)
        COMMENT 'Starts of observed stretches, holes of up to one interval closed, if all cards have the same ones [ms]' CODEC(ZSTD(1)),
    ends_ms Array(Int64) COMMENT 'Ends of these stretches [ms]' CODEC(ZSTD(1)),
    quarter_ticks Array(UInt32)
        COMMENT 'Ticks by quarter of the hour and, within it, state: active, idle-held, truly-idle, unknown' CODEC(ZSTD(1)),
    quarter_gpu_time_ms Array(UInt64) COMMENT 'GPU time in the same order [ms]' CODEC(ZSTD(1)),
    cards Nested (
        gpu LowCardinality(String),
        interval_ms UInt32,
        starts_ms Array(Int64),
        ends_ms Array(Int64),
        active_ticks UInt32,
        idle_held_ticks UInt32,
        truly_idle_ticks UInt32,
        unknown_ticks UInt32,
        active_gpu_time_ms UInt64,
        idle_held_gpu_time_ms UInt64,
        truly_idle_gpu_time_ms UInt64,
        unknown_gpu_time_ms UInt64,
        active_ms UInt64,
        idle_held_ms UInt64,
        truly_idle_ms UInt64,
        unknown_ms UInt64
    ) COMMENT 'Its cards by name: ticks, GPU time and observed time by state, and stretches where cards differ in them' CODEC(ZSTD(1)),
    unknowns Nested (
        gpu LowCardinality(String),
        reason UInt8,
        ticks UInt32,
        gpu_time_ms UInt64,
        duration_ms UInt64
    ) COMMENT 'Why cards were unknown; reason as in gua_report.spans' CODEC(ZSTD(1)),
    identities Nested (
        gpu LowCardinality(String),
        owner LowCardinality(Nullable(String)),
        program LowCardinality(Nullable(String)),
        state UInt8,
        gpu_time_ms UInt64,
        duration_ms UInt64
    ) COMMENT 'Who held cards, by state of the card (1, 2 or 4): attributed GPU time, and the sum of durations' CODEC(ZSTD(1)),
    shares Nested (
        gpu LowCardinality(String),
        start_ms Int64,
        end_ms Int64,
        duration_ms UInt64,
        gpu_time_ms UInt64
    ) COMMENT 'Of each GPU that was partitioned in the hour: ticks in a row with the same share of it' CODEC(ZSTD(1)),
    energies Nested (
        gpu LowCardinality(String),
        state UInt8,
        measured_mj UInt64,
        measured_ms UInt64,
        estimated_mj UInt64,
        estimated_ms UInt64,
        unknown_ms UInt64
    ) COMMENT 'Energy of each card by state: by its counter, by power x time of ticks without; time with neither' CODEC(ZSTD(1)),
    card_runs Nested (
        gpu LowCardinality(String),
        state UInt8,
        start_ms Int64,
        end_ms Int64,
        first_span_ms UInt32,
        last_span_ms UInt32,
        duration_ms UInt64,
        gpu_time_ms UInt64,
        is_used Bool
    ) COMMENT 'Runs of cards: ticks in a row in one state (1 to 4; 8 more while partitioned), with holes of up to a second; 0 ms: none'
        CODEC(ZSTD(1)),
    process_runs Nested (
        gpu LowCardinality(String),
        pid UInt32,
        created_ms Int64,
        owner LowCardinality(Nullable(String)),
        program LowCardinality(Nullable(String)),
        container_id LowCardinality(Nullable(String)),
        pod_uid LowCardinality(Nullable(String)),
        slurm_job_id LowCardinality(Nullable(String)),
        systemd_unit LowCardinality(Nullable(String)),
        state UInt8,
        card_state UInt8,
        start_ms Int64,
        end_ms Int64,
        first_span_ms UInt32,
        last_span_ms UInt32,
        duration_ms UInt64,
        gpu_time_ms UInt64,
        memory_kib_ms UInt64,
        memory_known_ms UInt64,
        memory_bytes Nullable(UInt64)
    ) COMMENT 'Runs of processes on cards, in one state of their own (1 active, 2 idle, 3 unknown) and one of the card; 0 ms: no holes'
        CODEC(ZSTD(1)),
    use_runs Nested (
        gpu LowCardinality(String),
        source LowCardinality(String),
        allocation_id LowCardinality(String),
        owner LowCardinality(Nullable(String)),
        use UInt8,
        is_shared Bool,
        start_ms Int64,
        end_ms Int64,
        first_span_ms UInt32,
        last_span_ms UInt32,
        duration_ms UInt64,
        gpu_time_ms UInt64
    ) COMMENT 'Runs of allocations on cards, and of nobody (empty source), with one use (1 used to 7 unknown, as in allocation_states)'
        CODEC(ZSTD(1)),
    allocation_sources Nested (
        source LowCardinality(String),
        ok_ms UInt64,
        failed_ms UInt64,
        last_ms Int64,
        last_failed_ms Int64,
        reason LowCardinality(Nullable(String))
    ) COMMENT 'Sources of allocations: time in which they could be read or not; newest tick; newest that failed (0: none), and why'
        CODEC(ZSTD(1)),
    idle_times Nested (
        gpu LowCardinality(String),
        state UInt8,
        sampled_us UInt64,
        idle_us UInt64,
        powered_us UInt64,
        energy_mj UInt64
    ) COMMENT 'Of each card, active or idle-held: GPU time that samples tell of, idle of that, of that what power samples cover, its energy'
        CODEC(ZSTD(1)),
    activities Nested (
        gpu LowCardinality(String),
        metric UInt8,
        told_us UInt64,
        weighted UInt64,
        low_us UInt64
    ) COMMENT 'Of active cards, 1 SMs, 2 occupancy, 3 tensor, 4 memory bandwidth: GPU time told; x activity [us/200]; of low activity'
        CODEC(ZSTD(1)),
${KEPT_OF_CARDS}
)
ENGINE = ${REPLICATED}ReplacingMergeTree(written)
PARTITION BY toYYYYMM(hour)
ORDER BY (toMonday(hour), host, hour)
$HOURS_TTL
$COUNTED_SETTINGS
COMMENT 'Counted hours; read with FINAL, and only where gua.hour_marks says that they still hold'
