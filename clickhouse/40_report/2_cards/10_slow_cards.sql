-- One row is one card: its time in the window and the hours asked for, as much of that as the driver tells why clocks were held
-- down, and of that what was by heat, by the power cap and by hardware, as it was when the card was read; one tick may be by several.
-- Errors are those of ticks that end in the window, xid the newest of their numbers; row_remap is what the newest of them tells.
CREATE OR REPLACE VIEW gua_report.slow_cards $ON_CLUSTER
$DEFINER
AS
SELECT
    toString(ticks.host) AS host,
    toString(ticks.gpu) AS gpu,
    any(cards.gpu_index) AS gpu_index,
    any(ifNull(cards.model, cards.name)) AS model,
    sum(inside_ms) AS observed_ms,
    sumIf(inside_ms, reasons IS NOT NULL) AS told_ms,
    sumIf(inside_ms, bitAnd(ifNull(reasons, 0), 96) > 0) AS heat_ms,
    sumIf(inside_ms, bitAnd(ifNull(reasons, 0), 4) > 0) AS power_cap_ms,
    sumIf(inside_ms, bitAnd(ifNull(reasons, 0), 136) > 0) AS hardware_ms,
    sumIf(inside_ms, bitAnd(ifNull(reasons, 0), 232) > 0) AS slowed_ms,
    sum(tick_xids) AS xid_errors,
    argMaxIf(tick_xid, end_ms, tick_xid IS NOT NULL) AS xid,
    sum(tick_eccs) AS ecc_errors,
    argMaxIf(tick_remap, end_ms, tick_remap IS NOT NULL) AS row_remap
FROM
(
    SELECT
        host,
        gpu,
        toUnixTimestamp64Milli(ts) AS end_ms,
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
    WHERE ${TICK_HOUR} IN {hours:Array(Int64)}
        AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
        AND ${OF_HOSTS}
        AND duration_ms > 0
        AND toUnixTimestamp64Milli(ts) - duration_ms < {until_ms:Int64}
) AS ticks
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
    ON cards.host = ticks.host AND cards.gpu = ticks.gpu
GROUP BY
    host,
    gpu
