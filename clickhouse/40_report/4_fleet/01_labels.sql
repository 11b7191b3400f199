-- One row is one host and the resource attributes that its newest tick came with.
CREATE OR REPLACE VIEW gua_report.labels $ON_CLUSTER
$DEFINER
AS
SELECT
    host,
    labels
FROM gua.hosts
ORDER BY host
