-- One row is one card in one tick.
CREATE OR REPLACE VIEW gua_public.card_ticks $ON_CLUSTER
(
${CARD_COLUMNS},
    tick_time DateTime64(3, 'UTC') COMMENT 'When the card was read; the tick covers observed_seconds before it [UTC]',
    state String COMMENT 'active, idle-held, truly-idle or unknown',
    reason Nullable(String) COMMENT 'Why unknown: lost, utilization, pid_namespace, processes, memory',
    observed_seconds Float64 COMMENT 'Time that the tick covers [s]',
    gpu_hours Float64 COMMENT 'GPU time of the tick: observed time times the card''s part of a GPU [h]',
    utilization Nullable(Float64) COMMENT 'Largest known utilization of any engine or process; NULL if unknown [0 to 1]',
    held_lower_bytes UInt64 COMMENT 'Memory held, at least [By]',
    held_upper_bytes Nullable(UInt64) COMMENT 'Memory held, at most; NULL if unknown [By]',
    power_watts Nullable(Float64) COMMENT 'Power drawn when the card was read; NULL if unknown [W]',
    energy_joules Nullable(Float64) COMMENT 'Energy spent in the tick, by the card''s counter; NULL if unknown [J]'
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
COMMENT 'Every tick of every card, with its state. A month of 64 cards is 5.5 million rows: filter on time, or read card_hours'
