-- One row is one streak in the window in which an allocation of a card was empty. A tick with another known use ends it. An unknown tick,
-- or a gap up to twice the longer tick beside it, does not. is_lower_bound: the use before it is unknown. next_used_ms runs from its end
-- to the next time with its owner there, or is -1. as_of_ms is the end of the card's newest tick in the window. priced is GPU time by
-- price number, without unpriced time. pieces are its intervals, prices_of_pieces their prices if the query passes any.
CREATE OR REPLACE VIEW gua_report.empty_streaks $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    ${USES}
${EMPTY_STREAKS}
ORDER BY
    host,
    gpu,
    start_ms,
    source,
    allocation_id
