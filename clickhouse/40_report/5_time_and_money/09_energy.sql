-- One row is one card in the window with the energy of each state: measured by its counter; estimated, for ticks of which the
-- counter tells nothing, as a reset lies in them, from the power drawn when the card was read; and how long neither is known.
-- Watts are means of measured energy. Added is what it drew while idle-held above its own draw while truly-idle. Energy is of
-- whole GPUs: MIG instances have none of their own, and of a partitioned GPU no state is that of all of it.
CREATE OR REPLACE VIEW gua_report.energy $ON_CLUSTER
$DEFINER
AS
WITH
    hours AS
    (
        SELECT *
        FROM gua.host_hours FINAL
        WHERE {stored:UInt8}
            AND hour > toDateTime(greatest(intDiv({since_ms:Int64}, 1000) - 3600, 0), 'UTC')
            AND hour < toDateTime(least(intDiv({until_ms:Int64} + 999, 1000), 4294967295), 'UTC')
            AND intDiv(toUnixTimestamp(hour), 3600) NOT IN {ticked:Array(Int64)}
            AND (empty({hosts:Array(String)}) OR has({hosts:Array(String)}, host))
    ),
    parts AS
    (
        -- Observed time by state apart from energy: hours that were counted before energy was know of none.
        SELECT
            host,
            card_gpu AS gpu,
            toUInt8(state_is) AS state_is,
            state_ms AS observed_ms,
            toUInt64(0) AS measured_mj,
            toUInt64(0) AS measured_ms,
            toUInt64(0) AS estimated_mj,
            toUInt64(0) AS estimated_ms
        FROM
        (
            SELECT
                host,
                any(cards.gpu) AS gpus,
                sumForEach(cards.active_ms) AS every_active_ms,
                sumForEach(cards.idle_held_ms) AS every_idle_held_ms,
                sumForEach(cards.truly_idle_ms) AS every_truly_idle_ms,
                sumForEach(cards.unknown_ms) AS every_unknown_ms
            FROM hours
            GROUP BY
                host,
                cards_key
        )
        ARRAY JOIN
            gpus AS card_gpu,
            arrayMap((a, b, c, d) -> [a, b, c, d], every_active_ms, every_idle_held_ms, every_truly_idle_ms, every_unknown_ms) AS by_state
        ARRAY JOIN
            by_state AS state_ms,
            range(1, 5) AS state_is
        WHERE state_ms > 0
        UNION ALL
        SELECT
            host,
            energy_gpu AS gpu,
            energy_state AS state_is,
            toUInt64(0) AS observed_ms,
            sum(energy_measured_mj) AS measured_mj,
            sum(energy_measured_ms) AS measured_ms,
            sum(energy_estimated_mj) AS estimated_mj,
            sum(energy_estimated_ms) AS estimated_ms
        FROM hours
        ARRAY JOIN
            energies.gpu AS energy_gpu,
            energies.state AS energy_state,
            energies.measured_mj AS energy_measured_mj,
            energies.measured_ms AS energy_measured_ms,
            energies.estimated_mj AS energy_estimated_mj,
            energies.estimated_ms AS energy_estimated_ms
        GROUP BY
            host,
            gpu,
            state_is
        UNION ALL
        SELECT
            host,
            gpu,
            toUInt8(least(state_code, 4)) AS state_is,
            toUInt64(sum(inside_ms)) AS observed_ms,
            toUInt64(sum(ifNull(energy_mj, 0))) AS measured_mj,
            toUInt64(sumIf(inside_ms, energy_mj IS NOT NULL)) AS measured_ms,
            toUInt64(sumIf(intDiv(toUInt64(ifNull(power_mw, 0)) * inside_ms, 1000), energy_mj IS NULL)) AS estimated_mj,
            toUInt64(sumIf(inside_ms, energy_mj IS NULL AND power_mw IS NOT NULL)) AS estimated_ms
        FROM gua_report.spans(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)}, ticked = {ticked:Array(Int64)})
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
            if(ifNull(cards.mig = 'parent', false), 4, parts.state_is) AS state_is,
            sum(parts.measured_mj) AS measured_mj,
            sum(parts.measured_ms) AS measured_ms,
            sum(parts.estimated_mj) AS estimated_mj,
            sum(parts.estimated_ms) AS estimated_ms,
            sum(parts.observed_ms) - measured_ms - estimated_ms AS unknown_ms
        FROM parts
        INNER JOIN
        (
            SELECT
                host,
                gpu,
                gpu_index,
                ifNull(cards.model, cards.name) AS model,
                mig
            FROM gua.cards AS cards
            WHERE (empty({hosts:Array(String)}) OR has({hosts:Array(String)}, host))
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
    arraySort(groupArray((state_is, measured_mj, measured_ms, estimated_mj, estimated_ms, unknown_ms))) AS every,
    arrayMap(
        one -> (['active', 'idle-held', 'truly-idle', 'unknown'][one.1], one.2, one.3, one.4, one.5, one.6),
        every
    ) AS states,
    -- mJ in a ms are W.
    if(sumIf(measured_ms, state_is = 3) > 0, sumIf(measured_mj, state_is = 3) / sumIf(measured_ms, state_is = 3), NULL) AS bare_watts,
    if(sumIf(measured_ms, state_is = 2) > 0, sumIf(measured_mj, state_is = 2) / sumIf(measured_ms, state_is = 2), NULL) AS held_watts,
    (held_watts - bare_watts) * sumIf(measured_ms, state_is = 2) / 1000 AS added_joules
FROM by_state
GROUP BY
    host,
    gpu
ORDER BY
    host,
    gpu_index,
    gpu
