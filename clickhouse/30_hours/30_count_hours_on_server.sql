-- One row is one due hour of a host. A server counts them every minute, an embedded store when it has landed ticks.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.count_hours $ON_CLUSTER
REFRESH EVERY 1 MINUTE APPEND TO gua.host_hours${LOCAL} $DEFINER
AS
SELECT *
FROM gua_report.counted_hours AS counted
COMMENT 'Counts due hours'
