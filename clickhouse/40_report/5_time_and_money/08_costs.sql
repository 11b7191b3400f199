-- One row is one model and one of its prices: the GPU time in the window while it counted, by state of the card, and what that
-- costs. What no price counted for is a row without one, so that the rows sum to the hours of the headline. A tick counts with
-- the hour of its end less 1 ms, as prices change between two hours; a MIG instance with its part of the GPU.
CREATE OR REPLACE VIEW gua_report.costs $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    priced AS
    (
        SELECT
            model,
            CAST(
                groupArray((intDiv(valid_from_ms, 3600000), currency, per_gpu_hour, source)),
                'Array(Tuple(from_hour Int64, currency String, per_gpu_hour Float64, source Nullable(String)))'
            ) AS every
        FROM gua_report.prices
        GROUP BY model
    ),
    -- Between two of these no price changes: hours of such a period are added up before they are priced.
    (SELECT arraySort(groupUniqArrayArray(every.from_hour)) FROM priced) AS changes,
    used AS
    (
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
                arrayCount(change -> change <= intDiv(toUnixTimestamp(hour), 3600), changes) AS period,
                any(cards.gpu) AS gpus,
                sumForEach(cards.active_gpu_time_ms) AS every_active_ms,
                sumForEach(cards.idle_held_gpu_time_ms) AS every_idle_held_ms,
                sumForEach(cards.truly_idle_gpu_time_ms) AS every_truly_idle_ms,
                sumForEach(cards.unknown_gpu_time_ms) AS every_unknown_ms
            FROM gua.host_hours FINAL
            WHERE ${USED_HOURS}
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
            arrayCount(change -> change <= intDiv(toUnixTimestamp(hour), 3600), changes) AS period,
            sumIf(gpu_us, state_code = ACTIVE) AS active_us,
            sumIf(gpu_us, state_code = IDLE_HELD) AS idle_held_us,
            sumIf(gpu_us, state_code = TRULY_IDLE) AS truly_idle_us,
            sumIf(gpu_us, state_code >= UNKNOWN) AS unknown_us
        FROM gua_report.spans(${TICK_WINDOW})
        GROUP BY
            host,
            gpu,
            period
    ),
    by_model AS
    (
        SELECT
            cards.model AS model,
            used.period AS period,
            sum(used.active_us) AS active_us,
            sum(used.idle_held_us) AS idle_held_us,
            sum(used.truly_idle_us) AS truly_idle_us,
            sum(used.unknown_us) AS unknown_us
        FROM used
        INNER JOIN
        (
            SELECT
                host,
                gpu,
                ifNull(cards.model, cards.name) AS model
            FROM gua.cards AS cards
            WHERE ${OF_HOSTS}
        ) AS cards
            ON cards.host = used.host AND cards.gpu = used.gpu
        GROUP BY
            model,
            period
    )
SELECT
    model,
    if(price.currency = '', NULL, price.currency) AS currency,
    if(price.currency = '', NULL, price.per_gpu_hour) AS per_gpu_hour,
    if(price.currency = '', NULL, price.from_hour * 3600000) AS valid_from_ms,
    price.source AS source,
    sum(active_us) / 1000 AS active_gpu_ms,
    sum(idle_held_us) / 1000 AS idle_held_gpu_ms,
    sum(truly_idle_us) / 1000 AS truly_idle_gpu_ms,
    sum(unknown_us) / 1000 AS unknown_gpu_ms,
    active_gpu_ms / 3600000 * per_gpu_hour AS active_cost,
    idle_held_gpu_ms / 3600000 * per_gpu_hour AS idle_held_cost,
    truly_idle_gpu_ms / 3600000 * per_gpu_hour AS truly_idle_cost,
    unknown_gpu_ms / 3600000 * per_gpu_hour AS unknown_cost
FROM
(
    SELECT
        by_model.model AS model,
        -- The newest that counts already; where there is none, one without a currency.
        arrayLast(each -> by_model.period > 0 AND each.from_hour <= changes[by_model.period], priced.every) AS price,
        by_model.active_us AS active_us,
        by_model.idle_held_us AS idle_held_us,
        by_model.truly_idle_us AS truly_idle_us,
        by_model.unknown_us AS unknown_us
    FROM by_model
    LEFT JOIN priced
        ON priced.model = by_model.model
)
GROUP BY
    model,
    price
ORDER BY
    model,
    valid_from_ms
