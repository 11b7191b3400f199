-- One row is one due hour of a host. A server makes it of all that are due once it has found some.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.count_found_hours $ON_CLUSTER TO gua.host_hours${LOCAL} $DEFINER
AS
SELECT counted.*
FROM gua.found_due_hours AS found
CROSS JOIN gua_report.counted_hours AS counted
COMMENT 'Counts due hours that were found'
