-- One row is one UTC hour in which a host changed after the rollup. Views read the ticks of these hours.
CREATE OR REPLACE VIEW gua.changed_hours $ON_CLUSTER
$DEFINER
AS
WITH ${IN_FORCE}
SELECT hour
FROM
(
    SELECT
        hour,
        marks AS arrived,
        toUInt64(0) AS rolled_up,
        toUInt8(0) AS rules_changed
    FROM gua.hour_marks${LOCAL}
    WHERE hour >= in_force.ticks_from
    UNION ALL
    SELECT
        hour,
        toUInt64(0) AS arrived,
        marks AS rolled_up,
        toUInt8(fingerprint != in_force.fingerprint) AS rules_changed
    FROM gua.rollups${LOCAL} FINAL
    WHERE hour >= in_force.ticks_from
)
GROUP BY hour
HAVING sum(arrived) != sum(rolled_up) OR max(rules_changed) > 0
COMMENT 'Hours whose rollup is out of date'
;
-- One row is one completed hour of a host whose ticks or rules changed after its rollup, the newest first, up to one batch. Hours with
-- inserts in the last seconds wait, as their ticks may not be visible yet.
CREATE OR REPLACE VIEW gua.due_hours $ON_CLUSTER
$DEFINER
AS
WITH
    ${IN_FORCE},
    -- Hours of all hosts first: in a large fleet only stale hours are compared by host.
    changed AS
    (
        SELECT hour
        FROM gua.changed_hours
        WHERE hour <= now() - 3600
    )
SELECT
    host,
    hour,
    marks,
    in_force.fingerprint AS fingerprint
FROM
(
    SELECT
        host,
        hour,
        marks,
        denseRank() OVER (ORDER BY toYYYYMM(hour) DESC) AS month
    FROM
    (
        SELECT
            host,
            hour,
            sum(arrived) AS marks
        FROM
        (
            SELECT
                host,
                hour,
                marks AS arrived,
                marked,
                toUInt64(0) AS rolled_up,
                toUInt8(0) AS rules_changed
            FROM gua.hour_marks${LOCAL}
            WHERE hour IN (SELECT hour FROM changed)
            UNION ALL
            SELECT
                host,
                hour,
                toUInt64(0) AS arrived,
                toDateTime64(0, 3, 'UTC') AS marked,
                marks AS rolled_up,
                toUInt8(fingerprint != in_force.fingerprint) AS rules_changed
            FROM gua.rollups${LOCAL} FINAL
            WHERE hour IN (SELECT hour FROM changed)
        ) AS every
        GROUP BY ALL
        HAVING (sum(arrived) != sum(rolled_up) OR max(rules_changed) > 0) AND max(marked) <= now64(3) - toIntervalSecond($SETTLE_SECONDS)
        ORDER BY
            hour DESC,
            host
        LIMIT $HOURS_AT_ONCE
    )
)
-- One month is one partition, and an insert may write 100 partitions at most.
WHERE month <= 100
COMMENT 'Hours to roll up'
