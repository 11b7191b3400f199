-- One row is one card: its time in the window, as much of that as the driver tells why clocks were held down, and of that what was by
-- heat, by the power cap and by hardware, as it was when the card was read; one tick may be by several. Errors are those of ticks that
-- end in the window, xid the newest of their numbers; row_remap is what the newest of them tells.
CREATE OR REPLACE VIEW gua_report.slow_cards $ON_CLUSTER
$DEFINER
AS
WITH
    hours AS
    (
        SELECT *
        FROM ${USED_ROWS}
    )
SELECT
    toString(parts.host) AS host,
    toString(parts.gpu) AS gpu,
    any(cards.gpu_index) AS gpu_index,
    any(ifNull(cards.model, cards.name)) AS model,
    sum(part_observed_ms) AS observed_ms,
    sum(part_told_ms) AS told_ms,
    sum(part_heat_ms) AS heat_ms,
    sum(part_power_cap_ms) AS power_cap_ms,
    sum(part_hardware_ms) AS hardware_ms,
    sum(part_slowed_ms) AS slowed_ms,
    sum(part_xids) AS xid_errors,
    argMaxIf(part_xid, part_ms, part_xid IS NOT NULL) AS xid,
    sum(part_eccs) AS ecc_errors,
    argMaxIf(part_remap, part_ms, part_remap IS NOT NULL) AS row_remap
FROM
(
    SELECT
        host,
        card_gpu AS gpu,
        toInt64(0) AS part_ms,
        sum(active_ms + idle_held_ms + truly_idle_ms + unknown_ms) AS part_observed_ms,
        toUInt64(0) AS part_told_ms,
        toUInt64(0) AS part_heat_ms,
        toUInt64(0) AS part_power_cap_ms,
        toUInt64(0) AS part_hardware_ms,
        toUInt64(0) AS part_slowed_ms,
        CAST(NULL, 'Nullable(UInt64)') AS part_xids,
        CAST(NULL, 'Nullable(UInt16)') AS part_xid,
        CAST(NULL, 'Nullable(UInt64)') AS part_eccs,
        CAST(NULL, 'Nullable(UInt8)') AS part_remap
    FROM hours
    ARRAY JOIN
        cards.gpu AS card_gpu,
        cards.active_ms AS active_ms,
        cards.idle_held_ms AS idle_held_ms,
        cards.truly_idle_ms AS truly_idle_ms,
        cards.unknown_ms AS unknown_ms
    GROUP BY
        host,
        gpu
    UNION ALL
    -- An hour, or a day, is as late as it begins: no tick that is read besides ends within it.
    SELECT
        host,
        hour_gpu AS gpu,
        toInt64(toUnixTimestamp(hour)) * 1000 + 1 AS part_ms,
        toUInt64(0) AS part_observed_ms,
        hour_told_ms AS part_told_ms,
        hour_heat_ms AS part_heat_ms,
        hour_power_cap_ms AS part_power_cap_ms,
        hour_hardware_ms AS part_hardware_ms,
        hour_slowed_ms AS part_slowed_ms,
        hour_xids AS part_xids,
        hour_xid AS part_xid,
        hour_eccs AS part_eccs,
        hour_remap AS part_remap
    FROM hours
    ARRAY JOIN
        health.gpu AS hour_gpu,
        health.told_ms AS hour_told_ms,
        health.heat_ms AS hour_heat_ms,
        health.power_cap_ms AS hour_power_cap_ms,
        health.hardware_ms AS hour_hardware_ms,
        health.slowed_ms AS hour_slowed_ms,
        health.xid_errors AS hour_xids,
        health.xid AS hour_xid,
        health.ecc_errors AS hour_eccs,
        health.row_remap AS hour_remap
    UNION ALL
    SELECT
        host,
        gpu,
        hour_ms AS part_ms,
        toUInt64(sum(inside_ms)) AS part_observed_ms,
        ${WHY_SLOW}
    FROM
    (
        SELECT
            host,
            gpu,
            toUnixTimestamp64Milli(ts) AS end_ms,
            intDiv(end_ms - 1, 3600000) * 3600000 + 1 AS hour_ms,
            toUInt64(greatest(
                least(end_ms, {until_ms:Int64}) - greatest(end_ms - assumeNotNull(duration_ms), {since_ms:Int64}),
                0
            )) AS inside_ms,
            clock_reasons AS reasons,
            if(end_ms <= {until_ms:Int64}, xid_errors, NULL) AS tick_xids,
            if(end_ms <= {until_ms:Int64}, card_ticks.xid, NULL) AS tick_xid,
            if(end_ms <= {until_ms:Int64}, ecc_errors, NULL) AS tick_eccs,
            if(end_ms <= {until_ms:Int64}, card_ticks.row_remap, NULL) AS tick_remap
        FROM gua.card_ticks AS card_ticks FINAL
        WHERE ${TICK_HOUR} IN {tick_hours:Array(Int64)}
            AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND ${OF_HOSTS}
            AND duration_ms > 0
            AND toUnixTimestamp64Milli(ts) - duration_ms < {until_ms:Int64}
    )
    GROUP BY
        host,
        gpu,
        hour_ms
) AS parts
LEFT JOIN
(
    SELECT
        host,
        gpu,
        gpu_index,
        name,
        model
    FROM gua.card_info FINAL
    WHERE ${OF_HOSTS}
) AS cards
    ON cards.host = parts.host AND cards.gpu = parts.gpu
GROUP BY
    host,
    gpu
