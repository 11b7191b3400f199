-- One row is one owner and program on one card in one UTC hour, by state of the card. Memory without a listed process has no row.
CREATE OR REPLACE VIEW gua_public.usage_hours $ON_CLUSTER
(
${CARD_COLUMNS},
    hour DateTime('UTC') COMMENT 'Start of the hour [UTC]',
    owner LowCardinality(Nullable(String)) COMMENT 'User of the processes; NULL if unknown',
    program LowCardinality(Nullable(String)) COMMENT 'Process name; NULL if unknown',
    state String COMMENT 'State of the card: active, idle-held or unknown',
    gpu_hours Float64 COMMENT 'Attributed GPU time: a shared card counts once [h]',
    process_hours Float64 COMMENT 'Sum of the times of their processes: a shared card counts for each [h]'
)
$DEFINER
AS
SELECT
${CARD_VALUES},
    facts.hour AS hour,
    facts.owner AS owner,
    facts.program AS program,
    facts.state AS state,
    facts.gpu_time_ms / 3600000 AS gpu_hours,
    facts.duration_ms / 3600000 AS process_hours
FROM gua.owner_hours AS facts
${DESCRIBED}
COMMENT 'Hours of each owner and program on each card'
