-- One row is one card in one UTC hour and one state. A tick belongs to the hour of its end less 1 ms.
CREATE OR REPLACE VIEW gua.card_hours $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the card is in',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    hour DateTime('UTC') COMMENT 'Start of the hour',
    state String COMMENT 'active, idle-held, truly-idle or unknown',
    reason Nullable(String) COMMENT 'Why unknown',
    card_ticks UInt64 COMMENT 'Ticks',
    duration_ms UInt64 COMMENT 'Observed time [ms]',
    gpu_time_ms UInt64 COMMENT 'GPU time [ms]'
)
AS
SELECT
    host,
    gpu,
    toStartOfHour(toDateTime(ts - toIntervalMillisecond(1), 'UTC')) AS hour,
    state,
    reason,
    count() AS card_ticks,
    sum(duration_ms) AS duration_ms,
    sum(gpu_time_ms) AS gpu_time_ms
FROM gua.card_states
GROUP BY
    host,
    gpu,
    hour,
    state,
    reason
COMMENT 'Hours of each card by state'
