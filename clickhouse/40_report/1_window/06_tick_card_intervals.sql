-- One row is an interval of a card in one UTC hour, as in gua.card_intervals, from the ticks of {tick_hours} in the window.
CREATE OR REPLACE VIEW gua_report.tick_card_intervals $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
${WINDOW_SPANS},
${CARD_INTERVAL_ROWS}
SELECT *
FROM card_interval_rows
