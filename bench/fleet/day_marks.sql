-- One row is one host in one hour of a day that was copied: it has the marks that its day was added up with.
INSERT INTO gua.hour_marks (host, hour, marks, marked)
WITH
$NAMES
SELECT
    hosts[number + 1],
    hour,
    marks,
    toDateTime64(0, 3, 'UTC')
FROM
(
    SELECT arrayJoin(range($FIRST_HOST, $FIRST_HOST + $HOSTS)) AS number
) AS wanted
INNER JOIN
(
    SELECT
        hour,
        marks,
        toUInt64(substring(toString(host), 10)) AS from_number
    FROM gua.hour_marks FINAL
    WHERE from_number < $SOURCES
) AS source
    ON source.from_number = wanted.number % $SOURCES
