-- One row is one row of gua_public.usage_hours with its estimated cost, by the price of the model in that hour. Amounts of one currency
-- may be summed. Memory without a listed process has no row.
CREATE OR REPLACE VIEW gua_public.costs $ON_CLUSTER
(
${CARD_COLUMNS},
    hour DateTime('UTC') COMMENT 'Start of the hour [UTC]',
    owner LowCardinality(Nullable(String)) COMMENT 'User of the processes; NULL if unknown',
    program LowCardinality(Nullable(String)) COMMENT 'Process name; NULL if unknown',
    state String COMMENT 'State of the card: active, idle-held or unknown',
    gpu_hours Float64 COMMENT 'Attributed GPU time: a shared card counts once [h]',
    currency Nullable(String) COMMENT 'ISO 4217 code of the price; NULL without a price',
    price_per_gpu_hour Nullable(Float64) COMMENT 'Price of an hour of a whole GPU; NULL without a price [currency/h]',
    cost Nullable(Float64) COMMENT 'Estimated cost; NULL without a price [currency]'
)
$DEFINER
AS
WITH
    -- The newest valid price; without one, an empty currency.
    arrayLast(each -> each.from_ms <= toInt64(toUnixTimestamp(facts.hour)) * 1000, priced.prices) AS price
SELECT
${CARD_VALUES},
    facts.hour AS hour,
    facts.owner AS owner,
    facts.program AS program,
    facts.state AS state,
    facts.gpu_time_ms / 3600000 AS gpu_hours,
    if(price.currency = '', NULL, price.currency) AS currency,
    if(price.currency = '', NULL, price.per_gpu_hour) AS price_per_gpu_hour,
    gpu_hours * price_per_gpu_hour AS cost
FROM gua.owner_hours AS facts
${DESCRIBED}
GLOBAL LEFT JOIN
(
    SELECT
        model,
        arraySort(CAST(
            groupArray((valid_from_ms, currency, per_gpu_hour)),
            'Array(Tuple(from_ms Int64, currency String, per_gpu_hour Float64))'
        )) AS prices
    FROM
    (
${PRICE_LIST}
    )
    GROUP BY model
) AS priced
    ON priced.model = described.model
COMMENT 'Hours of each owner and program on each card, with costs'
