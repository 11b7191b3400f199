-- One row is one model and one of its prices: the GPU time in the window while it counted, by state of the card, and what that
-- costs. What no price counted for is a row without one, so that the rows sum to the hours of the headline. A tick counts with
-- the hour of its end less 1 ms, as prices change between two hours; a MIG instance with its part of the GPU.
CREATE OR REPLACE VIEW gua_report.costs $ON_CLUSTER
$DEFINER
AS
WITH
    priced AS
    (
        SELECT
            model,
            groupArray((intDiv(valid_from_ms, 3600000), currency, per_gpu_hour, source)) AS every
        FROM gua_report.prices
        GROUP BY model
    ),
    -- Between two of these no price changes: hours of such a period are added up before they are priced.
    (SELECT arraySort(groupUniqArrayArray(every.1)) FROM priced) AS changes,
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
                arrayCount(one -> one <= intDiv(toUnixTimestamp(hour), 3600), changes) AS period,
                any(cards.gpu) AS gpus,
                sumForEach(cards.active_gpu_time_ms) AS every_active_ms,
                sumForEach(cards.idle_held_gpu_time_ms) AS every_idle_held_ms,
                sumForEach(cards.truly_idle_gpu_time_ms) AS every_truly_idle_ms,
                sumForEach(cards.unknown_gpu_time_ms) AS every_unknown_ms
            FROM gua.host_hours FINAL
            WHERE {stored:UInt8}
                AND hour > toDateTime(greatest(intDiv({since_ms:Int64}, 1000) - 3600, 0), 'UTC')
                AND hour < toDateTime(least(intDiv({until_ms:Int64} + 999, 1000), 4294967295), 'UTC')
                AND intDiv(toUnixTimestamp(hour), 3600) NOT IN {ticked:Array(Int64)}
                AND (empty({hosts:Array(String)}) OR has({hosts:Array(String)}, host))
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
            arrayCount(one -> one <= intDiv(toUnixTimestamp(hour), 3600), changes) AS period,
            sumIf(gpu_us, state_code = 1) AS active_us,
            sumIf(gpu_us, state_code = 2) AS idle_held_us,
            sumIf(gpu_us, state_code = 3) AS truly_idle_us,
            sumIf(gpu_us, state_code >= 4) AS unknown_us
        FROM gua_report.spans(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)}, ticked = {ticked:Array(Int64)})
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
            WHERE empty({hosts:Array(String)}) OR has({hosts:Array(String)}, host)
        ) AS cards
            ON cards.host = used.host AND cards.gpu = used.gpu
        GROUP BY
            model,
            period
    )
SELECT
    model,
    if(price.2 = '', NULL, price.2) AS currency,
    if(price.2 = '', NULL, price.3) AS per_gpu_hour,
    if(price.2 = '', NULL, price.1 * 3600000) AS valid_from_ms,
    price.4 AS source,
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
        arrayLast(one -> by_model.period > 0 AND one.1 <= changes[by_model.period], priced.every) AS price,
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
