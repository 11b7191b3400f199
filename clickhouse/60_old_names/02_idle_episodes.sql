-- One row is one of gua.idle_streaks, by the name that it had before.
CREATE OR REPLACE VIEW gua.idle_episodes $ON_CLUSTER
(
${IDLE_STREAKS_COLUMNS}
)
$DEFINER
AS
SELECT *
FROM gua.idle_streaks AS streaks
COMMENT 'Old name of gua.idle_streaks; goes away in the next version'
