INSERT INTO gua.card_seen (host, gpu, first_seen, last_seen, longest_ms, newest_share)
WITH
$NAMES
SELECT
    hosts[intDiv(number, 8) + 1],
    cards[number + 1],
    fromUnixTimestamp64Milli($SINCE_MS, 'UTC'),
    fromUnixTimestamp64Milli($UNTIL_MS, 'UTC'),
    30011,
    (fromUnixTimestamp64Milli($UNTIL_MS, 'UTC'), 1.)
FROM numbers($FIRST_HOST * 8, $HOSTS * 8)
