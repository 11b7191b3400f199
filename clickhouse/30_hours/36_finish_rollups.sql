-- One row is one hour of a host that all tables have now.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.finish_rollups $ON_CLUSTER TO gua.rollups${LOCAL} $DEFINER
AS
SELECT
    host,
    hour,
    now64(3, 'UTC') AS written,
    max(cards.marks) AS marks,
    max(cards.fingerprint) AS fingerprint,
    min(if(gpu = '' OR cards.ticks > 0, cards.first_ms, ${NO_TICK_MS})) AS first_ms,
    sum(cards.ticks) AS ticks
FROM gua.hourly_cards${LOCAL} AS cards
GROUP BY
    host,
    hour
HAVING countIf(gpu = '') > 0
COMMENT 'Says which hours were rolled up'
