-- One row is one card and one of the states active and idle-held, in which a program may be loaded: its GPU time in the window, how
-- much of it samples of utilization tell busy from idle seconds of, how much of that was idle, and of that how much power samples
-- cover, with its energy. An active tick may have idle seconds: states are judged by means of whole ticks.
CREATE OR REPLACE VIEW gua_report.idle_time $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    hours AS
    (
        SELECT *
        FROM ${USED_ROWS}
    )
SELECT
    toString(parts.host) AS host,
    toString(parts.gpu) AS gpu,
    any(cards.gpu_index) AS gpu_index,
    any(cards.model) AS model,
    STATE_NAMES[parts.state_is] AS state,
    sum(parts.state_us) AS gpu_us,
    sum(parts.part_sampled_us) AS sampled_us,
    sum(parts.part_idle_us) AS idle_us,
    sum(parts.part_powered_us) AS powered_us,
    sum(parts.part_idle_mj) AS idle_mj
FROM
(
    SELECT
        host,
        idle_gpu AS gpu,
        idle_state AS state_is,
        toUInt64(0) AS state_us,
        sum(hour_sampled_us) AS part_sampled_us,
        sum(hour_idle_us) AS part_idle_us,
        sum(hour_powered_us) AS part_powered_us,
        sum(hour_idle_mj) AS part_idle_mj
    FROM hours
    ARRAY JOIN
        idle_times.gpu AS idle_gpu,
        idle_times.state AS idle_state,
        idle_times.sampled_us AS hour_sampled_us,
        idle_times.idle_us AS hour_idle_us,
        idle_times.powered_us AS hour_powered_us,
        idle_times.energy_mj AS hour_idle_mj
    GROUP BY
        host,
        gpu,
        state_is
    UNION ALL
    SELECT
        host,
        card_gpu AS gpu,
        toUInt8(state_is) AS state_is,
        sum(state_ms) * 1000 AS state_us,
        toUInt64(0) AS part_sampled_us,
        toUInt64(0) AS part_idle_us,
        toUInt64(0) AS part_powered_us,
        toUInt64(0) AS part_idle_mj
    FROM hours
    ARRAY JOIN
        cards.gpu AS card_gpu,
        arrayMap((active_ms, held_ms) -> [active_ms, held_ms], cards.active_gpu_time_ms, cards.idle_held_gpu_time_ms) AS by_state
    ARRAY JOIN
        by_state AS state_ms,
        [ACTIVE, IDLE_HELD] AS state_is
    GROUP BY
        host,
        gpu,
        state_is
    UNION ALL
    SELECT
        host,
        gpu,
        toUInt8(state_code) AS state_is,
        sum(gpu_us) AS state_us,
        sum(sampled_us) AS part_sampled_us,
        sum(idle_us) AS part_idle_us,
        sum(powered_us) AS part_powered_us,
        sum(idle_mj) AS part_idle_mj
    FROM gua_report.spans(${TICK_WINDOW})
    WHERE state_code IN (ACTIVE, IDLE_HELD)
    GROUP BY
        host,
        gpu,
        state_is
) AS parts
LEFT JOIN
(
    SELECT
        host,
        gpu,
        gpu_index,
        ifNull(cards.model, cards.name) AS model
    FROM gua.cards AS cards
    WHERE ${OF_HOSTS}
) AS cards
    ON cards.host = parts.host AND cards.gpu = parts.gpu
GROUP BY
    host,
    gpu,
    parts.state_is
HAVING gpu_us > 0
ORDER BY
    host,
    gpu_index,
    gpu,
    parts.state_is
