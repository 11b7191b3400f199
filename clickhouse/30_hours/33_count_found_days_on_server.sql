-- One row is one due day of a host. A server makes it of all that are due once it has found some.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.count_found_days $ON_CLUSTER TO gua.host_days${LOCAL} $DEFINER
AS
SELECT counted.*
FROM gua.found_due_days AS found
CROSS JOIN gua_report.counted_days AS counted
COMMENT 'Adds up due days that were found'
