-- One row is one UTC day in the window, as a number since 1970, whose rows of gua.host_days may be used for all hosts asked for,
-- as nothing changed since and it lies wholly inside: which of its hours have ticks, a bit each, and how many card ticks it has.
CREATE OR REPLACE VIEW gua_report.held_days $ON_CLUSTER
$DEFINER
AS
WITH
    ${IN_FORCE},
    toDateTime(intDiv(least({since_ms:Int64}, 4294900000000) + 86399999, 86400000) * 86400, 'UTC') AS first_day,
    toDateTime(intDiv(least({until_ms:Int64}, 4294900000000), 86400000) * 86400, 'UTC') AS after_last_day
SELECT
    toInt64(number) AS day,
    toInt64(max(every_hour)) AS hours,
    toUInt64(sum(ticks)) AS card_ticks
FROM
(
    SELECT
        intDiv(toUnixTimestamp(hour), 86400) AS number,
        sum(marks) AS arrived,
        toUInt64(0) AS counted,
        toUInt8(0) AS others,
        toInt64(9000000000000000000) AS begun_ms,
        groupBitOr(bitShiftLeft(toUInt32(1), toHour(hour))) AS every_hour,
        toUInt64(0) AS ticks
    FROM gua.hour_marks
    WHERE hour >= first_day
        AND hour < after_last_day
        AND ${OF_HOSTS}
    GROUP BY number
    UNION ALL
    SELECT
        intDiv(toUnixTimestamp(day), 86400) AS number,
        toUInt64(0) AS arrived,
        sum(marks) AS counted,
        max(toUInt8(fingerprint != in_force.fingerprint OR is_kept AND day >= in_force.ticks_from)) AS others,
        -- Of an hour whose ticks are gone the first one is not cut.
        min(if(day < in_force.ticks_from, toInt64(9000000000000000000), first_ms)) AS begun_ms,
        toUInt32(0) AS every_hour,
        sum(arraySum(hour_ticks)) AS ticks
    FROM gua.host_days FINAL
    WHERE day >= first_day
        AND day < after_last_day
        AND ${OF_HOSTS}
    GROUP BY number
)
GROUP BY number
HAVING sum(arrived) = sum(counted) AND max(others) = 0 AND min(begun_ms) >= {since_ms:Int64}
ORDER BY day
