-- One row is one UTC day (a partition) that has ticks in the window.
CREATE OR REPLACE VIEW gua_report.days $ON_CLUSTER
AS
SELECT DISTINCT toUnixTimestamp(toDateTime(toDate(ts), 'UTC')) * 1000 AS day_ms
FROM gua.card_ticks
WHERE ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    AND ts <= fromUnixTimestamp64Milli({until_ms:Int64} + (SELECT toInt64(max(longest_ms)) FROM gua.card_seen), 'UTC')
    AND (empty({hosts:Array(String)}) OR has({hosts:Array(String)}, host))
ORDER BY day_ms
