-- One row is one card and one of the prices given, by its number, or none (0): the GPU time in the window that it counted for,
-- by state of the card. The rows of a card sum to its hours. A tick counts with the hour of its end less 1 ms, as prices change
-- between two hours; a MIG instance with its part of the GPU. Given are prices that begin before the window ends.
CREATE OR REPLACE VIEW gua_report.costs $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    used AS
    (
        -- A period is how many of the prices had begun: hours of one are added up before they are priced.
        SELECT
            host,
            card_gpu AS gpu,
            period,
            card_active_ms * 1000 AS active_us,
            card_idle_held_ms * 1000 AS idle_held_us,
            card_truly_idle_ms * 1000 AS truly_idle_us,
            card_unknown_ms * 1000 AS unknown_us
        FROM
        (
            SELECT
                host,
                arrayCount(start_ms -> start_ms <= toInt64(toUnixTimestamp(hour)) * 1000, {price_starts:Array(Int64)}) AS period,
                any(cards.gpu) AS gpus,
                sumForEach(cards.active_gpu_time_ms) AS every_active_ms,
                sumForEach(cards.idle_held_gpu_time_ms) AS every_idle_held_ms,
                sumForEach(cards.truly_idle_gpu_time_ms) AS every_truly_idle_ms,
                sumForEach(cards.unknown_gpu_time_ms) AS every_unknown_ms
            FROM ${USED_ROWS}
            GROUP BY
                host,
                cards_key,
                period
        )
        ARRAY JOIN
            gpus AS card_gpu,
            every_active_ms AS card_active_ms,
            every_idle_held_ms AS card_idle_held_ms,
            every_truly_idle_ms AS card_truly_idle_ms,
            every_unknown_ms AS card_unknown_ms
        UNION ALL
        SELECT
            host,
            gpu,
            arrayCount(start_ms -> start_ms <= toInt64(toUnixTimestamp(hour)) * 1000, {price_starts:Array(Int64)}) AS period,
            sumIf(gpu_us, state_code = ACTIVE) AS active_us,
            sumIf(gpu_us, state_code = IDLE_HELD) AS idle_held_us,
            sumIf(gpu_us, state_code = TRULY_IDLE) AS truly_idle_us,
            sumIf(gpu_us, state_code >= UNKNOWN) AS unknown_us
        FROM gua_report.spans(${TICK_WINDOW})
        GROUP BY
            host,
            gpu,
            period
    )
SELECT
    toString(used.host) AS host,
    toString(used.gpu) AS gpu,
    arrayLast(number -> number <= used.period, priced.prices) AS price,
    sum(used.active_us) AS active_us,
    sum(used.idle_held_us) AS idle_held_us,
    sum(used.truly_idle_us) AS truly_idle_us,
    sum(used.unknown_us) AS unknown_us
FROM used
LEFT JOIN
(
    SELECT
        host,
        gpu,
        ${CARD_PRICES} AS prices
    FROM gua.card_info AS cards FINAL
    WHERE ${OF_HOSTS}
) AS priced
    ON priced.host = used.host AND priced.gpu = used.gpu
GROUP BY
    host,
    gpu,
    price
