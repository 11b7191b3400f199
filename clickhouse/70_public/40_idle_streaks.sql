-- One row is one idle streak of all time: consecutive idle ticks of one process on one card. Filter on host and gpu to read less. A
-- filter on time cannot, as a streak needs all its ticks: for a window query gua_report.idle_streaks. From 1970-01-03 to 2100: older
-- engines skip every partition if a bound, less one day, does not fit a Date.
CREATE OR REPLACE VIEW gua_public.idle_streaks $ON_CLUSTER
(
${CARD_COLUMNS},
    pid UInt32 COMMENT 'Process id on the host',
    started Nullable(DateTime64(3, 'UTC')) COMMENT 'When the process started; NULL if unknown [UTC]',
    owner Nullable(String) COMMENT 'User of the process; NULL if unknown',
    program Nullable(String) COMMENT 'Process name; NULL if unknown',
    idle_from DateTime64(3, 'UTC') COMMENT 'Start of the first idle tick [UTC]',
    idle_until DateTime64(3, 'UTC') COMMENT 'End of the last idle tick [UTC]',
    idle_hours Float64 COMMENT 'Time of the idle ticks, without gaps and unknown ticks [h]',
    ticks UInt64 COMMENT 'Idle ticks [ticks]',
    memory_bytes Nullable(UInt64) COMMENT 'Largest known memory of the process in those ticks; NULL if unknown [By]'
)
$DEFINER
AS
SELECT
${CARD_VALUES},
    facts.pid AS pid,
    nullIf(facts.created, toDateTime64(0, 3, 'UTC')) AS started,
    facts.owner AS owner,
    facts.program AS program,
    facts.start AS idle_from,
    facts.end AS idle_until,
    facts.idle_ms / 3600000 AS idle_hours,
    facts.ticks AS ticks,
    facts.memory_bytes AS memory_bytes
FROM
(
    WITH
        ${STATES},
        toInt64(172800000) AS from_ms,
        toInt64(4102444800000) AS to_ms,
        emptyArrayString() AS of_hosts
${IDLE_STREAKS}
) AS facts
${DESCRIBED}
COMMENT 'Idle streaks of processes. Filter on host: a filter on time alone reads all ticks'
