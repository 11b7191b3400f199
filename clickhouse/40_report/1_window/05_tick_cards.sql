-- One row is one card in one UTC hour and one state, as in gua.hourly_cards, from the ticks of {tick_hours} in the window.
CREATE OR REPLACE VIEW gua_report.tick_cards $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
${WINDOW_SPANS},
${HOURLY_CARD_ROWS}
SELECT *
FROM hourly_card_rows
