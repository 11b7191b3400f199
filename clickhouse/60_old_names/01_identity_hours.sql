-- One row is one of gua.owner_hours, by the name that it had before.
CREATE OR REPLACE VIEW gua.identity_hours${LOCAL} $ON_CLUSTER
(
${OWNER_HOURS_COLUMNS}
)
$DEFINER
AS
SELECT *
FROM gua.owner_hours${LOCAL} AS hours
COMMENT 'Old name of gua.owner_hours; goes away in the next version'
