-- One row is one card in one UTC hour and one state. A tick belongs to the hour of its end less 1 ms. Hours that are rolled up and have
-- not changed since are read from gua.hourly_cards, the others from their ticks.
CREATE OR REPLACE VIEW gua.card_hours${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the card is in',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    hour DateTime('UTC') COMMENT 'Start of the hour',
    state String COMMENT 'active, idle-held, truly-idle or unknown',
    reason Nullable(String) COMMENT 'Why unknown: lost, utilization, pid_namespace, processes, memory',
    card_ticks UInt64 COMMENT 'Ticks',
    duration_ms UInt64 COMMENT 'Observed time [ms]',
    gpu_time_ms UInt64 COMMENT 'GPU time [ms]'
)
$DEFINER
AS
WITH
    ${STATES},
    ${CHANGED_HOURS}
SELECT
    host,
    gpu,
    hour,
    STATE_NAMES[least(state_code, UNKNOWN)] AS state,
    if(state_code >= UNKNOWN, REASON_NAMES[state_code - UNKNOWN + 1], NULL) AS reason,
    sum(every.ticks) AS card_ticks,
    sum(every.observed_ms) AS duration_ms,
    intDiv(sum(every.gpu_us), 1000) AS gpu_time_ms
FROM
(
    SELECT
        host,
        gpu,
        ${TICK_HOUR_START} AS hour,
        ${STATE_CODE} AS state_code,
        toUInt64(1) AS ticks,
        toUInt64(card_states.duration_ms) AS observed_ms,
        toUInt64(card_states.gpu_time_ms) * 1000 AS gpu_us
    FROM gua.card_states${LOCAL} AS card_states
    WHERE ${IN_CHANGED_HOURS}
        AND card_states.duration_ms > 0
    UNION ALL
    SELECT
        host,
        gpu,
        hour,
        state AS state_code,
        toUInt64(ticks) AS ticks,
        observed_ms,
        gpu_us
    FROM gua.hourly_cards${LOCAL} FINAL
    WHERE hour NOT IN (SELECT arrayJoin(changed)) AND ticks > 0
) AS every
GROUP BY
    host,
    gpu,
    hour,
    state_code
COMMENT 'Hours of each card by state'
