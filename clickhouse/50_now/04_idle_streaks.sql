-- One row is one idle streak: idle ticks of one process in a row. A filter on host and gpu spares reading the others; none
-- on time can, since a streak is known only with all its ticks: for a window ask gua_report.idle_streaks. From 1970-01-03
-- to 2100: a day beyond what a Date can hold makes an older engine skip every partition.
CREATE OR REPLACE VIEW gua.idle_streaks $ON_CLUSTER
(
${IDLE_STREAKS_COLUMNS}
)
$DEFINER
AS
WITH
    ${STATES},
    toInt64(172800000) AS from_ms,
    toInt64(4102444800000) AS to_ms,
    emptyArrayString() AS of_hosts
${IDLE_STREAKS}
COMMENT 'Times in which a process was on a card and did nothing. Filter on host: a filter on time alone reads every tick there is'
