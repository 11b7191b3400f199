-- One row is one host and source of ticks: how many cards, and from when to when the store knows them.
CREATE OR REPLACE VIEW gua_report.extent $ON_CLUSTER
$DEFINER
AS
SELECT
    toString(host) AS host,
    ifNull(source, 'agent') AS source,
    count() AS cards,
    min(toUnixTimestamp64Milli(first_seen)) AS first_ms,
    max(toUnixTimestamp64Milli(last_seen)) AS last_ms,
    max(ifNull(interval_ms, 0)) AS interval_ms
FROM gua.cards
WHERE ${OF_HOSTS}
GROUP BY
    host,
    source
ORDER BY
    host,
    source
