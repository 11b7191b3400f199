-- One row is one card at its newest tick.
CREATE OR REPLACE VIEW gua_public.current_cards $ON_CLUSTER
(
${CARD_COLUMNS},
    mig Nullable(String) COMMENT 'none, parent (partitioned) or instance',
    source Nullable(String) COMMENT 'Origin of its ticks: agent, import, program, simulator',
    tick_time DateTime64(3, 'UTC') COMMENT 'Newest tick [UTC]',
    age_seconds Float64 COMMENT 'Time since the newest tick; below 0: the host''s clock is ahead of the server''s [s]',
    is_stale Bool COMMENT 'Whether the newest tick is older than three intervals',
    state String COMMENT 'active, idle-held, truly-idle or unknown at the newest tick; unobserved if that is stale',
    reason Nullable(String) COMMENT 'Reason: lost, utilization, pid_namespace, processes, memory; silent if unobserved',
    last_state String COMMENT 'active, idle-held, truly-idle or unknown at the newest tick',
    since DateTime64(3, 'UTC') COMMENT 'Start of last_state without a gap of two ticks, searched back to the UTC day before [UTC]',
    in_state_hours Float64 COMMENT 'From since to the newest tick [h]',
    utilization Nullable(Float64) COMMENT 'Largest known utilization of any engine or process at the newest tick [0 to 1]',
    held_lower_bytes UInt64 COMMENT 'Held memory at the newest tick, at least [By]',
    held_upper_bytes Nullable(UInt64) COMMENT 'Held memory at the newest tick, at most; NULL if unknown [By]',
    unattributed_lower_bytes UInt64 COMMENT 'Held memory without a listed process, at least [By]',
    allocation LowCardinality(Nullable(String)) COMMENT 'allocated, unallocated or unknown; NULL without an allocation source'
)
$DEFINER
AS
SELECT
${CARD_VALUES},
    facts.mig AS mig,
    facts.source AS source,
    facts.ts AS tick_time,
    facts.age_ms / 1000 AS age_seconds,
    facts.stale AS is_stale,
    facts.state AS state,
    facts.reason AS reason,
    facts.last_state AS last_state,
    facts.since AS since,
    facts.in_state_ms / 3600000 AS in_state_hours,
    facts.busiest_utilization / 10000 AS utilization,
    facts.held_lower_bytes AS held_lower_bytes,
    facts.held_upper_bytes AS held_upper_bytes,
    facts.unattributed_lower_bytes AS unattributed_lower_bytes,
    facts.allocation AS allocation
FROM gua.current_cards AS facts
${DESCRIBED}
COMMENT 'All cards at their newest tick'
