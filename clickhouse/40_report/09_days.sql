-- One row is one UTC day (a partition) that has ticks in the window, and how many card ticks: parts may count twice until
-- they have merged. It is what a long window is divided by.
CREATE OR REPLACE VIEW gua_report.days $ON_CLUSTER
AS
SELECT
    toUnixTimestamp(toDateTime(toDate(ts), 'UTC')) * 1000 AS day_ms,
    count() AS card_ticks
FROM gua.card_ticks
WHERE ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    AND ts <= fromUnixTimestamp64Milli({until_ms:Int64} + (SELECT toInt64(max(longest_ms)) FROM gua.card_seen), 'UTC')
    AND (empty({hosts:Array(String)}) OR has({hosts:Array(String)}, host))
GROUP BY day_ms
ORDER BY day_ms
