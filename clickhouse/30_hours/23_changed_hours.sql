-- One row is one UTC hour in which, on any host, something changed since it was counted. Views read its ticks instead.
CREATE OR REPLACE VIEW gua.changed_hours $ON_CLUSTER
(
    hour DateTime('UTC') COMMENT 'Start of the hour'
)
$DEFINER
AS
WITH ${IN_FORCE}
SELECT hour
FROM
(
    SELECT
        hour,
        marks AS arrived,
        toUInt64(0) AS counted,
        toUInt8(0) AS others
    FROM gua.hour_marks${LOCAL}
    WHERE hour >= in_force.ticks_from
    UNION ALL
    SELECT
        hour,
        toUInt64(0) AS arrived,
        marks AS counted,
        toUInt8(fingerprint != in_force.fingerprint) AS others
    FROM gua.rollups${LOCAL} FINAL
    WHERE hour >= in_force.ticks_from
)
GROUP BY hour
HAVING sum(arrived) != sum(counted) OR max(others) > 0
COMMENT 'Hours whose rollup is out of date'
