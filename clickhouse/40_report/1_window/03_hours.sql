-- One row is one UTC hour (since 1970) that may have ticks in the window. is_counted: its rollup is valid for all requested hosts, and
-- the hour lies inside the window. is_merged: its UTC day can be read from gua.process_days. card_ticks is the rough number of ticks. It
-- is NULL without a valid rollup: such hours are read from ticks (gua_report.hour_ticks). An hour whose ticks have expired keeps its
-- rollup, with all of a tick that began before the window.
CREATE OR REPLACE VIEW gua_report.hours $ON_CLUSTER
$DEFINER
AS
WITH
    ${IN_FORCE},
    (SELECT toInt64(max(longest_ms)) FROM gua.card_seen) AS longest_ms,
    every AS
    (
        SELECT
            hour,
            marks AS arrived,
            toUInt64(0) AS rolled_up,
            toUInt8(0) AS rules_changed,
            ${NO_TICK_MS} AS first_ms,
            toUInt64(0) AS ticks,
            toUInt64(0) AS rollups,
            toUInt64(0) AS rollups_written_ms
        FROM gua.hour_marks
        WHERE hour > toDateTime(greatest(intDiv({since_ms:Int64}, 1000) - 3600, 0), 'UTC')
            AND hour < toDateTime(least(intDiv({until_ms:Int64} + longest_ms + 999, 1000), 4294967295), 'UTC')
            AND ${OF_HOSTS}
        UNION ALL
        SELECT
            hour,
            toUInt64(0) AS arrived,
            marks AS rolled_up,
            toUInt8(fingerprint != in_force.fingerprint) AS rules_changed,
            first_ms,
            ticks,
            toUInt64(1) AS rollups,
            toUInt64(toUnixTimestamp64Milli(written)) AS rollups_written_ms
        FROM gua.rollups FINAL
        WHERE hour > toDateTime(greatest(intDiv({since_ms:Int64}, 1000) - 3600, 0), 'UTC')
            AND hour < toDateTime(least(intDiv({until_ms:Int64} + longest_ms + 999, 1000), 4294967295), 'UTC')
            AND ${OF_HOSTS}
    )
SELECT
    toInt64(number) AS hour,
    is_counted,
    -- The same rollups as when the day was merged: versions only grow.
    toBool(ifNull(
        min(is_counted) OVER day
        AND sum(hours.rollups) OVER day = merged.rollups
        AND sum(hours.rollups_written_ms) OVER day = merged.rollups_written_ms,
        false
    )) AS is_merged,
    if(is_counted, counted_ticks, NULL) AS card_ticks
FROM
(
    SELECT
        intDiv(toUnixTimestamp(hour), 3600) AS number,
        toStartOfDay(hour) AS day,
        toBool(
            (
                sum(arrived) = sum(rolled_up) AND max(rules_changed) = 0 AND min(first_ms) >= {since_ms:Int64}
                OR hour < in_force.ticks_from AND toInt64(number) * 3600000 >= {since_ms:Int64}
            )
            AND (toInt64(number) + 1) * 3600000 <= {until_ms:Int64}
        ) AS is_counted,
        sum(ticks) AS counted_ticks,
        sum(every.rollups) AS rollups,
        sum(every.rollups_written_ms) AS rollups_written_ms
    FROM every
    GROUP BY hour
) AS hours
LEFT JOIN
(
    SELECT
        day,
        sum(process_days.rollups) AS rollups,
        sum(process_days.rollups_written_ms) AS rollups_written_ms
    FROM gua.process_days FINAL
    WHERE gpu = ''
        AND day > toDateTime(greatest(intDiv({since_ms:Int64}, 1000) - 86400, 0), 'UTC')
        AND day < toDateTime(least(intDiv({until_ms:Int64} + 999, 1000), 4294967295), 'UTC')
        AND ${OF_HOSTS}
    GROUP BY day
) AS merged
    ON merged.day = hours.day
WINDOW day AS (PARTITION BY hours.day)
ORDER BY hour
