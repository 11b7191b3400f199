-- One row is one hour to roll up. A server checks every minute.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.look_for_due_hours $ON_CLUSTER
REFRESH EVERY 1 MINUTE APPEND TO gua.due_rollups $DEFINER
AS
SELECT
    host,
    hour,
    marks,
    fingerprint
FROM gua.due_hours
ORDER BY hour
COMMENT 'Starts the rollup of due hours'
