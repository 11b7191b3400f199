INSERT INTO gua.agents (host, instance, host_id, day, first_seen, last_seen, last_received, least_delay_ms, newest)
WITH
$NAMES
SELECT
    hosts[intDiv(number, $DAYS) + $FIRST_HOST + 1],
    lower(hex(sipHash128('instance', intDiv(number, $DAYS) + $FIRST_HOST))),
    lower(hex(sipHash128('host', intDiv(number, $DAYS) + $FIRST_HOST))),
    toDate($FIRST_DAY + number % $DAYS),
    fromUnixTimestamp64Milli(toInt64($FIRST_DAY + number % $DAYS) * 86400000 + 15000, 'UTC') AS first_seen,
    fromUnixTimestamp64Milli(toInt64($FIRST_DAY + number % $DAYS) * 86400000 + 86385000, 'UTC') AS last_seen,
    last_seen + toIntervalSecond(3),
    1000 + number % 3000,
    (last_seen, toNullable(toInt64(-3000)), '2.0.0', 'agent', 30000)
FROM numbers($HOSTS * $DAYS)
