-- One row where hours are due, else none. A server looks every minute, which takes a twentieth of what planning to count does.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.look_for_due_hours $ON_CLUSTER
REFRESH EVERY 1 MINUTE APPEND TO gua.found_due_hours $DEFINER
AS
SELECT count() AS due
FROM gua_report.due_hours AS each
HAVING due > 0
COMMENT 'Finds due hours'
