-- One row is one host and UTC day that is over, whose hours hold, and whose ticks or rules changed since it was added up; the
-- newest month first, as many as are added up at a time. Of hours whose ticks are gone it is what they were counted as.
CREATE OR REPLACE VIEW gua_report.due_days $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host',
    day DateTime('UTC') COMMENT 'Start of the day',
    marks UInt64 COMMENT 'Inserts that held ticks of its hours',
    fingerprint UInt64 COMMENT 'The rules in force',
    is_kept Bool COMMENT 'Whether an hour does not hold, but stays as it was counted'
)
$DEFINER
AS
WITH
    ${IN_FORCE},
    changed AS
    (
        -- By days first: of a large fleet only those in which anything changed are looked at host by host.
        SELECT day
        FROM
        (
            SELECT
                toStartOfDay(hour) AS day,
                marks AS arrived,
                toUInt64(0) AS counted,
                toUInt8(0) AS others
            FROM gua.hour_marks${LOCAL}
            WHERE hour < toStartOfDay(now() - 3600, 'UTC')
            UNION ALL
            SELECT
                day,
                toUInt64(0) AS arrived,
                marks AS counted,
                toUInt8(fingerprint != in_force.fingerprint OR is_kept AND day >= in_force.ticks_from) AS others
            FROM gua.host_days${LOCAL} FINAL
        )
        GROUP BY day
        HAVING sum(arrived) != sum(counted) OR max(others) > 0
    )
SELECT
    host,
    day,
    marks,
    in_force.fingerprint AS fingerprint,
    is_kept
FROM
(
    SELECT
        host,
        day,
        marks,
        is_kept,
        denseRank() OVER (ORDER BY toYYYYMM(day) DESC) AS month
    FROM
    (
        SELECT
            host,
            day,
            sum(hour_arrived) AS marks,
            toBool(max(is_other)) AS is_kept
        FROM
        (
            SELECT
                host,
                hour,
                toStartOfDay(hour) AS day,
                sum(arrived) AS hour_arrived,
                hour_arrived != sum(counted) OR max(others) > 0 AS is_other
            FROM
            (
                SELECT
                    host,
                    hour,
                    marks AS arrived,
                    toUInt64(0) AS counted,
                    toUInt8(0) AS others
                FROM gua.hour_marks${LOCAL}
                WHERE toStartOfDay(hour) IN (SELECT day FROM changed)
                UNION ALL
                SELECT
                    host,
                    hour,
                    toUInt64(0) AS arrived,
                    marks AS counted,
                    toUInt8(fingerprint != in_force.fingerprint) AS others
                FROM gua.host_hours${LOCAL} FINAL
                WHERE toStartOfDay(hour) IN (SELECT day FROM changed)
            ) AS every
            GROUP BY
                host,
                hour
        )
        GROUP BY
            host,
            day
        HAVING (NOT is_kept OR day < in_force.ticks_from)
            AND (host, day, marks) NOT IN (
                SELECT
                    host,
                    day,
                    marks
                FROM gua.host_days${LOCAL} FINAL
                WHERE day IN (SELECT day FROM changed)
                    AND fingerprint = in_force.fingerprint
                    AND NOT (is_kept AND day >= in_force.ticks_from)
            )
        -- Of one month host by host, as hours lie: few of them are read to add up many days.
        ORDER BY
            toYYYYMM(day) DESC,
            host,
            day DESC
        LIMIT $DAYS_AT_ONCE
    )
)
-- A row goes to the partition of its month, and an insert takes 100 at most.
WHERE month <= 100
COMMENT 'Days to add up, again or for the first time'
