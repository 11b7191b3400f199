-- One row where days are due, else none. A server looks every minute, which takes a twentieth of what planning to count does.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.look_for_due_days $ON_CLUSTER
REFRESH EVERY 1 MINUTE APPEND TO gua.found_due_days $DEFINER
AS
SELECT count() AS due
FROM gua_report.due_days AS each
HAVING due > 0
COMMENT 'Finds due days'
