-- One row is one card in one UTC hour and one state. A tick belongs to the hour of its end less 1 ms. Valid rollups come from
-- gua.hourly_cards, changed hours from ticks.
CREATE OR REPLACE VIEW gua.card_hours${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the card is in',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    hour DateTime('UTC') COMMENT 'Start of the hour',
    state String COMMENT 'active, idle-held, truly-idle or unknown',
    reason Nullable(String) COMMENT 'Reason of unknown: lost, utilization, pid_namespace, processes, memory',
    card_ticks UInt64 COMMENT 'Ticks',
    duration_ms UInt64 COMMENT 'Observed time [ms]',
    gpu_time_ms UInt64 COMMENT 'GPU time [ms]',
    without_process_ms Nullable(UInt64) COMMENT 'Active GPU time without a process and held memory; NULL if unknown, or not active [ms]'
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
    intDiv(sum(every.gpu_us), 1000) AS gpu_time_ms,
    if(sum(every.listed_us) > 0, intDiv(sum(every.without_process_us), 1000), NULL) AS without_process_ms
FROM
(
    SELECT
        host,
        gpu,
        ${TICK_HOUR_START} AS hour,
        ${STATE_CODE} AS state_code,
        toUInt64(1) AS ticks,
        toUInt64(card_states.duration_ms) AS observed_ms,
        toUInt64(card_states.gpu_time_ms) * 1000 AS gpu_us,
        if(without_process IS NULL, 0, gpu_us) AS listed_us,
        if(ifNull(without_process, false), gpu_us, 0) AS without_process_us
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
        gpu_us,
        listed_us,
        without_process_us
    FROM gua.hourly_cards${LOCAL} FINAL
    WHERE hour NOT IN (SELECT arrayJoin(changed)) AND ticks > 0
) AS every
GROUP BY
    host,
    gpu,
    hour,
    state_code
COMMENT 'Hours of each card by state'
;
-- One row is one card in one UTC hour while active or idle-held: its sampled GPU time and the idle part. Time without samples has no row.
-- Changed hours come from ticks, as in gua.card_hours.
CREATE OR REPLACE VIEW gua.execution_idle_hours${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the card is in',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    hour DateTime('UTC') COMMENT 'Start of the hour',
    state String COMMENT 'active or idle-held',
    sampled_gpu_us UInt64 COMMENT 'Sampled GPU time [us]',
    idle_gpu_us UInt64 COMMENT 'Part of sampled_gpu_us below the threshold of active [us]',
    powered_gpu_us UInt64 COMMENT 'Part of idle_gpu_us with power samples [us]',
    idle_energy_mj UInt64 COMMENT 'Energy of powered_gpu_us [mJ]'
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
    STATE_NAMES[state_code] AS state,
    sum(every.sampled_us) AS sampled_gpu_us,
    sum(every.idle_us) AS idle_gpu_us,
    sum(every.powered_us) AS powered_gpu_us,
    sum(every.idle_mj) AS idle_energy_mj
FROM
(
    SELECT
        host,
        gpu,
        ${TICK_HOUR_START} AS hour,
        ${STATE_CODE} AS state_code,
        duration_ms,
        toUInt64(gpu_time_ms) * 1000 AS gpu_us,
        ${IDLE_TIME},
        ifNull(idle_energy_mj, 0) AS idle_mj
    FROM gua.card_states${LOCAL}
    WHERE ${IN_CHANGED_HOURS}
        AND duration_ms > 0
        AND sampled_ms > 0
        AND state IN ('active', 'idle-held')
    UNION ALL
    SELECT
        host,
        gpu,
        hour,
        state AS state_code,
        toUInt32(0) AS duration_ms,
        toUInt64(0) AS gpu_us,
        sampled_us,
        idle_us,
        powered_us,
        idle_mj
    FROM gua.hourly_cards${LOCAL} FINAL
    WHERE hour NOT IN (SELECT arrayJoin(changed)) AND state IN (ACTIVE, IDLE_HELD) AND (sampled_us > 0 OR idle_mj > 0)
) AS every
GROUP BY
    host,
    gpu,
    hour,
    state_code
COMMENT 'Idle seconds of active and idle-held cards by hour'
