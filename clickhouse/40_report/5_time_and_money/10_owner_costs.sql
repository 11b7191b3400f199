-- One row is one row of gua.owner_hours with its estimated cost, by the price of the model in that hour. Amounts of one currency may be
-- summed. Memory without a listed process has no row.
CREATE OR REPLACE VIEW gua.owner_costs $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the card is in',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    model Nullable(String) COMMENT 'Model of the whole GPU',
    hour DateTime('UTC') COMMENT 'Start of the hour',
    owner LowCardinality(Nullable(String)) COMMENT 'User of the processes',
    program LowCardinality(Nullable(String)) COMMENT 'Process name',
    state String COMMENT 'State of the card: active, idle-held or unknown',
    gpu_time_ms UInt64 COMMENT 'Attributed GPU time [ms]',
    currency Nullable(String) COMMENT 'ISO 4217 code of the price; NULL without a price',
    per_gpu_hour Nullable(Float64) COMMENT 'Price of an hour of a whole GPU; NULL without a price',
    cost Nullable(Float64) COMMENT 'Estimated cost in the currency; NULL without a price'
)
$DEFINER
AS
SELECT
    host,
    gpu,
    model,
    hour,
    owner,
    program,
    state,
    gpu_time_ms,
    if(price.currency = '', NULL, price.currency) AS currency,
    if(price.currency = '', NULL, price.per_gpu_hour) AS per_gpu_hour,
    gpu_time_ms / 3600000 * per_gpu_hour AS cost
FROM
(
    SELECT
        hours.host AS host,
        hours.gpu AS gpu,
        cards.model AS model,
        hours.hour AS hour,
        hours.owner AS owner,
        hours.program AS program,
        hours.state AS state,
        hours.gpu_time_ms AS gpu_time_ms,
        -- The newest valid price; without one, an empty currency.
        arrayLast(each -> each.from_ms <= toInt64(toUnixTimestamp(hours.hour)) * 1000, cards.prices) AS price
    FROM gua.owner_hours AS hours
    GLOBAL LEFT JOIN
    (
        SELECT
            named.host AS host,
            named.gpu AS gpu,
            named.model AS model,
            priced.every AS prices
        FROM
        (
            SELECT
                host,
                gpu,
                ifNull(cards.model, cards.name) AS model
            FROM gua.cards AS cards
        ) AS named
        LEFT JOIN
        (
            SELECT
                model,
                arraySort(CAST(
                    groupArray((valid_from_ms, currency, per_gpu_hour)),
                    'Array(Tuple(from_ms Int64, currency String, per_gpu_hour Float64))'
                )) AS every
            FROM
            (
${PRICE_LIST}
            )
            GROUP BY model
        ) AS priced
            ON priced.model = named.model
    ) AS cards
        ON cards.host = hours.host AND cards.gpu = hours.gpu
) AS every
COMMENT 'Hours of each owner and program on each card, with costs'
