-- One row is one price and its validity; until_ms is NULL for the last price of a model.
CREATE OR REPLACE VIEW gua_report.prices $ON_CLUSTER
$DEFINER
AS
${PRICE_LIST}
ORDER BY
    model,
    valid_from_ms
;
-- One row is one model with cards in the store. Imported cards may have a name only: it is their model.
CREATE OR REPLACE VIEW gua_report.models $ON_CLUSTER
$DEFINER
AS
SELECT
    assumeNotNull(ifNull(cards.model, cards.name)) AS model,
    count() AS cards
FROM gua.cards AS cards
WHERE ifNull(cards.model, cards.name) IS NOT NULL
GROUP BY model
ORDER BY model
