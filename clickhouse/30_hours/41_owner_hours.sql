-- One row is one owner and program on one card in one UTC hour, by state of the card. GPU time is attributed; durations overlap where
-- processes share a card. Changed hours come from ticks, as in gua.card_hours.
CREATE OR REPLACE VIEW gua.owner_hours${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the card is in',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    hour DateTime('UTC') COMMENT 'Start of the hour',
    owner LowCardinality(Nullable(String)) COMMENT 'User of the processes',
    program LowCardinality(Nullable(String)) COMMENT 'Process name',
    state String COMMENT 'State of the card: active, idle-held or unknown',
    gpu_time_ms UInt64 COMMENT 'Attributed GPU time [ms]',
    duration_ms UInt64 COMMENT 'Sum of the times of their processes [ms]'
)
$DEFINER
AS
WITH
    ${STATES},
    ${ACTIVE_FROM},
    ${CHANGED_HOURS},
    spans AS
    (
        SELECT
            host,
            gpu,
            ${TICK_HOUR_START} AS hour,
            ${WHOLE_TICK},
            ${SPAN_VALUES}
        FROM gua.card_states${LOCAL}
        WHERE ${IN_CHANGED_HOURS}
            AND duration_ms > 0
    ),
    processes AS
    (
        SELECT *
        FROM gua.process_ticks${LOCAL} FINAL
        WHERE ${IN_CHANGED_HOURS}
            AND gpu_time_ms IS NOT NULL
    ),
${PROCESS_INTERVAL_ROWS}
SELECT
    host,
    gpu,
    hour,
    owner,
    program,
    STATE_NAMES[card_state] AS state,
    intDiv(sum(gpu_us), 1000) AS gpu_time_ms,
    sum(observed_ms) AS duration_ms
FROM
(
    SELECT
        host,
        gpu,
        hour,
        owner,
        program,
        card_state,
        gpu_us,
        observed_ms
    FROM process_interval_rows
    UNION ALL
    SELECT
        host,
        gpu,
        hour,
        owner,
        program,
        card_state,
        gpu_us,
        observed_ms
    FROM gua.process_intervals${LOCAL} FINAL
    WHERE hour NOT IN (SELECT arrayJoin(changed)) AND observed_ms > 0
)
WHERE card_state != TRULY_IDLE
GROUP BY
    host,
    gpu,
    hour,
    owner,
    program,
    card_state
COMMENT 'Hours of each owner and program on each card'
