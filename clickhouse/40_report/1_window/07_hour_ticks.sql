-- One row is one UTC hour of those asked for, as a number since 1970, that has card ticks: how many, about.
CREATE OR REPLACE VIEW gua_report.hour_ticks $ON_CLUSTER
$DEFINER
AS
SELECT
    toInt64(${TICK_HOUR}) AS hour,
    count() AS card_ticks
FROM gua.card_ticks
WHERE ${TICK_HOUR} IN {hours:Array(Int64)}
    AND ${OF_HOSTS}
GROUP BY hour
ORDER BY hour
