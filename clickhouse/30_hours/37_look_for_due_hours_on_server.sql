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
;
-- One row is one day to merge. A server checks every minute.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.look_for_due_days $ON_CLUSTER
REFRESH EVERY 1 MINUTE APPEND TO gua.due_day_rollups $DEFINER
AS
SELECT
    host,
    day,
    rollups,
    rollups_written_ms
FROM gua.due_days
ORDER BY day
COMMENT 'Starts the merge of due days'
