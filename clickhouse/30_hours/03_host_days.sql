-- One row is one host on one UTC day that is over, added up from its hours in gua.host_hours: long windows read a 24th of the
-- rows. It is made again when one of them was, never added to, and the newest row counts.
CREATE TABLE IF NOT EXISTS gua.host_days${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the cards are in',
    day DateTime('UTC') COMMENT 'Start of the day' CODEC(Delta, ZSTD(1)),
    marks UInt64 COMMENT 'The sum of gua.hour_marks that was seen before the hours were read' CODEC(ZSTD(1)),
    fingerprint UInt64 COMMENT 'The rules in force then (gua_report.rules_fingerprint)' CODEC(ZSTD(1)),
    is_kept Bool COMMENT 'Whether an hour was judged by other rules, or has newer ticks, but stays as it was as its ticks are gone',
    written DateTime64(3, 'UTC') COMMENT 'When the row was made; the newest counts' CODEC(Delta, ZSTD(1)),
    first_ms Int64 COMMENT 'Start of the first tick, as Unix time [ms]' CODEC(Delta, ZSTD(1)),
    cards_key UInt64 COMMENT 'Hash of the names of the cards, in order' CODEC(ZSTD(1)),
    interval_ms UInt32 COMMENT 'Longest nominal interval; 0 if none is known [ms]' CODEC(ZSTD(1)),
    starts_ms Array(Int64)
        COMMENT 'Starts of observed stretches, holes of up to one interval closed, if all cards have the same ones [ms]' CODEC(ZSTD(1)),
    ends_ms Array(Int64) COMMENT 'Ends of these stretches [ms]' CODEC(ZSTD(1)),
    hour_ticks Array(UInt32)
        COMMENT 'Ticks by hour of the day and, within it, state: active, idle-held, truly-idle, unknown' CODEC(ZSTD(1)),
    hour_gpu_time_ms Array(UInt64) COMMENT 'GPU time in the same order [ms]' CODEC(ZSTD(1)),
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
    ) COMMENT 'Of each GPU that was partitioned in an hour: ticks in a row, within an hour, with the same share of it' CODEC(ZSTD(1)),
    energies Nested (
        gpu LowCardinality(String),
        state UInt8,
        measured_mj UInt64,
        measured_ms UInt64,
        estimated_mj UInt64,
        estimated_ms UInt64,
        unknown_ms UInt64
    ) COMMENT 'Energy of each card by state: by its counter, by power x time of ticks without; time with neither' CODEC(ZSTD(1)),
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
    held_streaks Nested (
        gpu LowCardinality(String),
        first_ms Int64,
        first_span_ms UInt32,
        last_ms Int64,
        last_span_ms UInt32,
        is_broken Bool,
        head_ms UInt64,
        head_gpu_time_ms UInt64,
        head_is_used Bool,
        tail_ms UInt64,
        tail_gpu_time_ms UInt64,
        tail_is_used Bool,
        never_used_gpu_time_ms UInt64,
        never_used_long_gpu_time_ms UInt64,
        low_gpu_time_ms UInt64,
        low_long_gpu_time_ms UInt64,
        unknown_gpu_time_ms UInt64,
        watched_ms Int64,
        known_ms Int64,
        held_since_ms Int64,
        held_span_ms UInt32,
        held_before_ms Int64,
        is_free_broken Bool,
        free_ms UInt64,
        free_gpu_time_ms UInt64,
        free_since_ms Int64,
        free_span_ms UInt32,
        free_before_ms Int64
    ) COMMENT 'Idle-held time of each card by its streak: those at the edges of the day, all between; its last truly-idle streak'
        CODEC(ZSTD(1)),
    processes Nested (
        gpu LowCardinality(String),
        pid UInt32,
        created_ms Int64,
        owner LowCardinality(Nullable(String)),
        program LowCardinality(Nullable(String)),
        first_ms Int64,
        last_ms Int64,
        is_newest Bool,
        before_ms Int64,
        first_span_ms UInt32,
        last_span_ms UInt32,
        is_broken Bool,
        head_idle_ms UInt64,
        head_since_ms Int64,
        head_span_ms UInt32,
        tail_idle_ms UInt64,
        tail_since_ms Int64,
        tail_span_ms UInt32,
        tail_unknown_ms Int64,
        longest_idle_ms UInt64,
        unknown_ms Int64,
        held_gpu_time_ms UInt64,
        held_kib_ms UInt64,
        held_known_ms UInt64
    ) COMMENT 'Processes on cards by name: when they had it and, of the newest one of each, its streaks at both edges and longest between'
        CODEC(ZSTD(1)),
${KEPT_OF_CARDS}
)
ENGINE = ${REPLICATED}ReplacingMergeTree(written)
PARTITION BY toYYYYMM(day)
ORDER BY (host, day)
$DAYS_TTL
$COUNTED_SETTINGS
COMMENT 'Hours added up by day; read with FINAL, and only where gua.hour_marks says that they still hold'
