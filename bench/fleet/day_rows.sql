-- One row is one host on one day: that of a host whose day was added up from hours ($SOURCES hosts, kept in gua.bench_days), with
-- the names of other cards and of other users; the columns in which such names stand are given.
INSERT INTO gua.host_days
WITH
$COPIES
SELECT
    source.* REPLACE (
        hosts[host_number + 1] AS host,
        cityHash64(gpus) AS cards_key,
        $CHANGED
    )
FROM
(
    SELECT
        number + $FIRST_HOST AS host_number,
        concat('gpu-node-', leftPad(toString(host_number % $SOURCES), 4, '0')) AS from_host,
        cards_of[host_number + 1] AS gpus,
        cityHash64('user of', host_number) % 300 AS other_user
    FROM numbers($HOSTS)
) AS wanted
INNER JOIN gua.bench_days AS source
    ON source.host = wanted.from_host
