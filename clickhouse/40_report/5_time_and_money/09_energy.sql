-- One row is one card in the window with the energy of each state: measured by its counter; estimated, for ticks of which the
-- counter tells nothing, as a reset lies in them, from the power drawn when the card was read; and how long neither is known.
-- Watts are means of measured energy. Added is what it drew while idle-held above its own draw while truly-idle. Energy is of
-- whole GPUs: MIG instances have none of their own, and of a GPU while it is partitioned no state is that of all of it.
CREATE OR REPLACE VIEW gua_report.energy $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    hours AS
    (
        SELECT *
        FROM ${USED_ROWS}
    ),
    parts AS
    (
        SELECT
            host,
            energy_gpu AS gpu,
            energy_state AS state_is,
            sum(energy_measured_mj) AS measured_mj,
            sum(energy_measured_ms) AS measured_ms,
            sum(energy_estimated_mj) AS estimated_mj,
            sum(energy_estimated_ms) AS estimated_ms,
            sum(energy_unknown_ms) AS unknown_ms
        FROM hours
        ARRAY JOIN
            energies.gpu AS energy_gpu,
            energies.state AS energy_state,
            energies.measured_mj AS energy_measured_mj,
            energies.measured_ms AS energy_measured_ms,
            energies.estimated_mj AS energy_estimated_mj,
            energies.estimated_ms AS energy_estimated_ms,
            energies.unknown_ms AS energy_unknown_ms
        GROUP BY
            host,
            gpu,
            state_is
        UNION ALL
        -- Hours that were counted before energy was know the time in each state alone.
        SELECT
            host,
            card_gpu AS gpu,
            toUInt8(state_is) AS state_is,
            toUInt64(0) AS measured_mj,
            toUInt64(0) AS measured_ms,
            toUInt64(0) AS estimated_mj,
            toUInt64(0) AS estimated_ms,
            state_ms AS unknown_ms
        FROM hours
        ARRAY JOIN
            cards.gpu AS card_gpu,
            arrayMap((a, b, c, d) -> [a, b, c, d], cards.active_ms, cards.idle_held_ms, cards.truly_idle_ms, cards.unknown_ms) AS by_state
        ARRAY JOIN
            by_state AS state_ms,
            range(ACTIVE, UNKNOWN + 1) AS state_is
        WHERE empty(energies.gpu) AND state_ms > 0
        UNION ALL
        SELECT
            host,
            gpu,
            toUInt8(if(is_partitioned, UNKNOWN, least(state_code, UNKNOWN))) AS state_is,
            toUInt64(sum(ifNull(energy_mj, 0))) AS measured_mj,
            toUInt64(sumIf(inside_ms, energy_mj IS NOT NULL)) AS measured_ms,
            toUInt64(sumIf(intDiv(toUInt64(ifNull(power_mw, 0)) * inside_ms, 1000), energy_mj IS NULL)) AS estimated_mj,
            toUInt64(sumIf(inside_ms, energy_mj IS NULL AND power_mw IS NOT NULL)) AS estimated_ms,
            toUInt64(sumIf(inside_ms, energy_mj IS NULL AND power_mw IS NULL)) AS unknown_ms
        FROM gua_report.spans(${TICK_WINDOW})
        GROUP BY
            host,
            gpu,
            state_is
    ),
    by_state AS
    (
        SELECT
            toString(parts.host) AS host,
            toString(parts.gpu) AS gpu,
            any(cards.gpu_index) AS card_index,
            any(cards.model) AS card_model,
            parts.state_is AS state_is,
            sum(parts.measured_mj) AS measured_mj,
            sum(parts.measured_ms) AS measured_ms,
            sum(parts.estimated_mj) AS estimated_mj,
            sum(parts.estimated_ms) AS estimated_ms,
            sum(parts.unknown_ms) AS unknown_ms
        FROM parts
        INNER JOIN
        (
            SELECT
                host,
                gpu,
                gpu_index,
                ifNull(cards.model, cards.name) AS model
            FROM gua.cards AS cards
            WHERE ${OF_HOSTS}
                AND NOT ifNull(mig = 'instance', false)
        ) AS cards
            ON cards.host = parts.host AND cards.gpu = parts.gpu
        GROUP BY
            host,
            gpu,
            state_is
    )
SELECT
    host,
    gpu,
    any(card_index) AS gpu_index,
    any(card_model) AS model,
    CAST(
        arraySort(groupArray((state_is, measured_mj, measured_ms, estimated_mj, estimated_ms, unknown_ms))),
        'Array(Tuple(
            state UInt8,
            measured_mj UInt64,
            measured_ms UInt64,
            estimated_mj UInt64,
            estimated_ms UInt64,
            unknown_ms UInt64
        ))'
    ) AS every,
    arrayMap(
        each -> (
            STATE_NAMES[each.state],
            each.measured_mj,
            each.measured_ms,
            each.estimated_mj,
            each.estimated_ms,
            each.unknown_ms
        ),
        every
    ) AS states,
    -- mJ in a ms are W.
    if(
        sumIf(measured_ms, state_is = TRULY_IDLE) > 0,
        sumIf(measured_mj, state_is = TRULY_IDLE) / sumIf(measured_ms, state_is = TRULY_IDLE),
        NULL
    ) AS bare_watts,
    if(
        sumIf(measured_ms, state_is = IDLE_HELD) > 0,
        sumIf(measured_mj, state_is = IDLE_HELD) / sumIf(measured_ms, state_is = IDLE_HELD),
        NULL
    ) AS held_watts,
    (held_watts - bare_watts) * sumIf(measured_ms, state_is = IDLE_HELD) / 1000 AS added_joules
FROM by_state
GROUP BY
    host,
    gpu
ORDER BY
    host,
    gpu_index,
    gpu
