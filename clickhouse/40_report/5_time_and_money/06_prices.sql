-- One row is one price and the time in which it counts; until_ms is NULL where no later one of the model ends it.
CREATE OR REPLACE VIEW gua_report.prices $ON_CLUSTER
$DEFINER
AS
${PRICE_LIST}
ORDER BY
    model,
    valid_from_ms
;
-- One row is one model that the store has cards of. Recordings tell a card's name alone: it is its model.
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
