-- One row is one card and one price by its number, or 0 for unpriced time: GPU time in the window by state. The rows of a card sum to its
-- hours. A tick counts in the hour of its end less 1 ms, as prices change at full hours.
CREATE OR REPLACE VIEW gua_report.costs $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    periods AS
    (
        -- period is the number of prices that had begun. Hours of one period are summed before they are priced.
        SELECT
            host,
            gpu,
            arrayCount(start_ms -> start_ms <= toInt64(toUnixTimestamp(hour)) * 1000, {price_starts:Array(Int64)}) AS period,
            sumIf(gpu_us, state = ACTIVE) AS active_us,
            sumIf(gpu_us, state = IDLE_HELD) AS idle_held_us,
            sumIf(gpu_us, state = TRULY_IDLE) AS truly_idle_us,
            sumIf(gpu_us, state >= UNKNOWN) AS unknown_us
        FROM ${HOURS_OF_CARDS}
        GROUP BY ALL
    )
SELECT
    toString(periods.host) AS host,
    toString(periods.gpu) AS gpu,
    arrayLast(number -> number <= periods.period, priced.prices) AS price,
    sum(periods.active_us) AS active_us,
    sum(periods.idle_held_us) AS idle_held_us,
    sum(periods.truly_idle_us) AS truly_idle_us,
    sum(periods.unknown_us) AS unknown_us
FROM periods
LEFT JOIN ${PRICED_CARDS} AS priced
    ON priced.card_host = periods.host AND priced.card_gpu = periods.gpu
GROUP BY ALL
