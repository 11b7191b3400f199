-- One row is one setting of the rules in force.
CREATE OR REPLACE VIEW gua_report.rules $ON_CLUSTER
$DEFINER
AS
SELECT
    key,
    value,
    is_default
FROM gua.rules
