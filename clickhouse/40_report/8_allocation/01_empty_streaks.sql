-- One row is one streak in the window in which an allocation of a card was empty. A streak is ticks in a row: one with another known use
-- ends it; an unknown tick, or a gap of up to twice the longer of the two ticks beside it, does not. is_lower_bound: nothing tells what
-- was just before. next_used_ms: from its end to the next time that its owner was there, whatever lies between, or -1. as_of_ms is the
-- end of the card's newest tick in the window. priced is GPU time by price; what no price given counts for is left out. pieces are its
-- runs, and prices_of_pieces, where any are given, their prices.
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
