-- One row is one card in one UTC hour and one state.
CREATE OR REPLACE VIEW gua_public.card_hours $ON_CLUSTER
(
${CARD_COLUMNS},
    hour DateTime('UTC') COMMENT 'Start of the hour [UTC]',
    state String COMMENT 'active, idle-held, truly-idle or unknown',
    reason Nullable(String) COMMENT 'Reason of unknown: lost, utilization, pid_namespace, processes, memory',
    observed_hours Float64 COMMENT 'Observed time in the state [h]',
    gpu_hours Float64 COMMENT 'GPU time in the state: observed time x share of a whole GPU [h]',
    ticks UInt64 COMMENT 'Ticks in the state [ticks]',
    without_process_hours Nullable(Float64) COMMENT 'Active GPU time without a process and held memory; NULL if unknown, or not active [h]'
)
$DEFINER
AS
SELECT
${CARD_VALUES},
    facts.hour AS hour,
    facts.state AS state,
    facts.reason AS reason,
    facts.duration_ms / 3600000 AS observed_hours,
    facts.gpu_time_ms / 3600000 AS gpu_hours,
    facts.card_ticks AS ticks,
    facts.without_process_ms / 3600000 AS without_process_hours
FROM gua.card_hours AS facts
${DESCRIBED}
COMMENT 'Hours of each card by state'
