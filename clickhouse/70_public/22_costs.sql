-- One row is one row of gua_public.usage_hours with its estimated cost, by the price of the model in that hour. Amounts of one currency
-- may be summed.
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
SELECT
${CARD_VALUES},
    facts.hour AS hour,
    facts.owner AS owner,
    facts.program AS program,
    facts.state AS state,
    facts.gpu_time_ms / 3600000 AS gpu_hours,
    facts.currency AS currency,
    facts.per_gpu_hour AS price_per_gpu_hour,
    facts.cost AS cost
FROM gua.owner_costs AS facts
${DESCRIBED}
COMMENT 'Hours of each owner and program on each card, with costs'
