-- One row is one price and the time in which it counts; until_ms is NULL where no later one of the model ends it.
CREATE OR REPLACE VIEW gua_report.prices $ON_CLUSTER
$DEFINER
AS
${PRICE_LIST}
ORDER BY
    model,
    valid_from_ms
