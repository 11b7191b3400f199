-- One row is a row of gua.$TABLE, copied from one of a host whose ticks were rolled up (gua.bench_$TABLE: $SOURCES hosts of
-- $SOURCE_DAYS days) to another day, other cards and other users.
INSERT INTO gua.$TABLE
WITH
$NAMES,
    (SELECT groupArray(concat('user', leftPad(toString(number), 3, '0'))) FROM numbers(300)) AS users
SELECT source.* REPLACE (
    $CHANGED
)
FROM gua.bench_$TABLE AS source
INNER JOIN
(
    SELECT
        intDiv(number, $DAYS) + $FIRST_HOST AS host_number,
        $FIRST_DAY + number % $DAYS AS day,
        $SOURCE_FIRST_DAY + cityHash64('day of', host_number, day) % $SOURCE_DAYS AS source_day,
        toInt64(day) - toInt64(source_day) AS later_days,
        later_days * 86400000 AS later_ms,
        cityHash64('user of', host_number, intDiv(day, 7)) % 300 AS other_user,
        cityHash64('cards of', host_number, day) % 8 AS turned
    FROM numbers($HOSTS * $DAYS)
) AS copy
    ON toUInt64(substring(source.host, 10)) = copy.host_number % $SOURCES
    AND toUInt64(intDiv(toUnixTimestamp(source.$TIME), 86400)) = copy.source_day
