-- One row is one model that the store has cards of.
CREATE OR REPLACE VIEW gua_report.models $ON_CLUSTER
$DEFINER
AS
SELECT
    assumeNotNull(cards.model) AS model,
    count() AS cards
FROM gua.cards AS cards
WHERE cards.model IS NOT NULL
GROUP BY model
ORDER BY model
