-- One row is one card in one UTC hour and one of the states active and idle-held, in which a program may be loaded: the GPU time that
-- samples of utilization tell busy from idle seconds of, and what of it was idle. What nothing tells of has no row. As in
-- gua.card_hours, changed hours come from ticks.
CREATE OR REPLACE VIEW gua.execution_idle_hours${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the card is in',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    hour DateTime('UTC') COMMENT 'Start of the hour',
    state String COMMENT 'active or idle-held',
    sampled_gpu_us UInt64 COMMENT 'GPU time that samples tell busy from idle seconds of [us]',
    idle_gpu_us UInt64 COMMENT 'Of that what lay below the threshold of active [us]',
    powered_gpu_us UInt64 COMMENT 'Of idle_gpu_us what power samples cover [us]',
    idle_energy_mj UInt64 COMMENT 'Energy of what power samples cover [mJ]'
)
$DEFINER
AS
WITH
    ${STATES},
    -- Asked for once: an hour that is counted meanwhile would be read twice, or not at all.
    (SELECT groupArray(hour) FROM gua_report.changed_hours) AS changed
SELECT *
FROM
(
    -- Changed hours first, as in gua.card_hours.
    SELECT
        host,
        gpu,
        hour,
        state,
        sum(sampled_us) AS sampled_gpu_us,
        sum(idle_us) AS idle_gpu_us,
        sum(powered_us) AS powered_gpu_us,
        sum(idle_mj) AS idle_energy_mj
    FROM
    (
        SELECT
            host,
            gpu,
            ${TICK_HOUR_START} AS hour,
            state,
            duration_ms,
            toUInt64(gpu_time_ms) * 1000 AS gpu_us,
            ${IDLE_TIME},
            ifNull(idle_energy_mj, 0) AS idle_mj
        FROM gua.card_states${LOCAL}
        WHERE ${TICK_HOUR} IN (SELECT intDiv(toUnixTimestamp(arrayJoin(changed)), 3600))
            AND duration_ms > 0
            AND sampled_ms > 0
            AND state IN ('active', 'idle-held')
    )
    GROUP BY
        host,
        gpu,
        hour,
        state
    UNION ALL
    SELECT
        host,
        idle_gpu AS gpu,
        hour,
        STATE_NAMES[idle_state] AS state,
        hour_sampled_us AS sampled_gpu_us,
        hour_idle_us AS idle_gpu_us,
        hour_powered_us AS powered_gpu_us,
        hour_idle_mj AS idle_energy_mj
    FROM gua.host_hours${LOCAL} FINAL
    ARRAY JOIN
        idle_times.gpu AS idle_gpu,
        idle_times.state AS idle_state,
        idle_times.sampled_us AS hour_sampled_us,
        idle_times.idle_us AS hour_idle_us,
        idle_times.powered_us AS hour_powered_us,
        idle_times.energy_mj AS hour_idle_mj
    WHERE hour NOT IN (SELECT arrayJoin(changed))
) AS every
COMMENT 'Idle seconds of each card while a program may be loaded, by hour'
