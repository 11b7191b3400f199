-- One row is one card with its energy by state. It is measured by the card's counter, or estimated as power x time for ticks without a
-- counter value. unknown_ms is time without either. Watts are means of measured energy. added_joules is energy while idle-held above the
-- card's own truly-idle power. Only whole GPUs have energy; partitioned time counts as unknown.
CREATE OR REPLACE VIEW gua_report.energy $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    by_state AS
    (
        SELECT
            toString(hours.host) AS host,
            toString(hours.gpu) AS gpu,
            any(cards.gpu_index) AS card_index,
            any(cards.model) AS card_model,
            toUInt8(if(hours.is_partitioned, UNKNOWN, least(hours.state, UNKNOWN))) AS state_is,
            sum(hours.measured_mj) AS measured_mj,
            sum(hours.measured_ms) AS measured_ms,
            sum(hours.estimated_mj) AS estimated_mj,
            sum(hours.estimated_ms) AS estimated_ms,
            toUInt64(sum(hours.observed_ms - hours.measured_ms - hours.estimated_ms)) AS unknown_ms
        FROM ${HOURS_OF_CARDS} AS hours
        LEFT JOIN ${CARD_MODELS} AS cards
            ON cards.host = hours.host AND cards.gpu = hours.gpu
        WHERE NOT hours.is_instance
        GROUP BY ALL
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
    -- mJ / ms is W.
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
