-- One row is one card in one UTC hour while active or idle-held. Time without samples has no row; gua_public.card_hours has its hours.
CREATE OR REPLACE VIEW gua_public.execution_idle_hours $ON_CLUSTER
(
${CARD_COLUMNS},
    hour DateTime('UTC') COMMENT 'Start of the hour [UTC]',
    state String COMMENT 'active or idle-held',
    sampled_gpu_hours Float64 COMMENT 'Sampled GPU time [h]',
    idle_gpu_hours Float64 COMMENT 'Part of it below the threshold of active; divided by sampled_gpu_hours: execution-idle [h]',
    powered_gpu_hours Float64 COMMENT 'Part of idle_gpu_hours with power samples [h]',
    idle_energy_joules Float64 COMMENT 'Energy of powered_gpu_hours [J]'
)
$DEFINER
AS
SELECT
${CARD_VALUES},
    facts.hour AS hour,
    facts.state AS state,
    facts.sampled_gpu_us / 3600000000 AS sampled_gpu_hours,
    facts.idle_gpu_us / 3600000000 AS idle_gpu_hours,
    facts.powered_gpu_us / 3600000000 AS powered_gpu_hours,
    facts.idle_energy_mj / 1000 AS idle_energy_joules
FROM gua.execution_idle_hours AS facts
${DESCRIBED}
COMMENT 'Idle seconds of active and idle-held cards by hour'
