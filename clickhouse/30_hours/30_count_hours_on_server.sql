-- Every minute a server counts the hours that are due. (One host's embedded store does so when it has landed ticks.)
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.count_hours $ON_CLUSTER
REFRESH EVERY 1 MINUTE APPEND TO gua.host_hours${LOCAL} $DEFINER
AS
SELECT *
FROM gua.counted_hours
COMMENT 'Counts due hours'
