-- One row is one due day of a host. A server adds them up every minute, an embedded store when it has counted hours.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.count_days $ON_CLUSTER
REFRESH EVERY 1 MINUTE APPEND TO gua.host_days${LOCAL} $DEFINER
AS
SELECT *
FROM gua_report.counted_days AS counted
COMMENT 'Adds up due days'
