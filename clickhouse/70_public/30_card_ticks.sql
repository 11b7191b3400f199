-- One row is one card in one tick.
CREATE OR REPLACE VIEW gua_public.card_ticks $ON_CLUSTER
(
${CARD_COLUMNS},
    tick_time DateTime64(3, 'UTC') COMMENT 'End of the tick: time at which the card was read [UTC]',
    state String COMMENT 'active, idle-held, truly-idle or unknown',
    reason Nullable(String) COMMENT 'Reason of unknown: lost, utilization, pid_namespace, processes, memory',
    observed_seconds Float64 COMMENT 'Time that the tick covers [s]',
    gpu_hours Float64 COMMENT 'GPU time of the tick: observed time x share of a whole GPU [h]',
    utilization Nullable(Float64) COMMENT 'Largest known utilization of any engine or process; NULL if unknown [0 to 1]',
    held_lower_bytes UInt64 COMMENT 'Held memory, at least [By]',
    held_upper_bytes Nullable(UInt64) COMMENT 'Held memory, at most; NULL if unknown [By]',
    power_watts Nullable(Float64) COMMENT 'Power at ts; NULL if unknown [W]',
    energy_joules Nullable(Float64) COMMENT 'Energy spent in the tick, by counter; NULL if unknown [J]'
)
$DEFINER
AS
SELECT
${CARD_VALUES},
    facts.ts AS tick_time,
    facts.state AS state,
    facts.reason AS reason,
    facts.duration_ms / 1000 AS observed_seconds,
    facts.gpu_time_ms / 3600000 AS gpu_hours,
    facts.busiest_utilization / 10000 AS utilization,
    facts.held_lower_bytes AS held_lower_bytes,
    facts.held_upper_bytes AS held_upper_bytes,
    facts.power_mw / 1000 AS power_watts,
    facts.energy_mj / 1000 AS energy_joules
FROM gua.card_states AS facts
${DESCRIBED}
COMMENT 'All card ticks with their state. A month of 64 cards has 5.5 million rows: filter on time, or use card_hours'
