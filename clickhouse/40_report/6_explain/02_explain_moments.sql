-- One row is one tick of a card beside the moment at_ms: at most so many before it and so many from it on, and only ticks
-- of (since_ms, until_ms], which spare reading all that the card ever did.
CREATE OR REPLACE VIEW gua_report.explain_moments $ON_CLUSTER
$DEFINER
AS
SELECT
    ts_ms,
    duration_ms
FROM
(
    SELECT
        toUnixTimestamp64Milli(ts) AS ts_ms,
        assumeNotNull(duration_ms) AS duration_ms
    FROM gua.card_ticks AS ticks FINAL
    WHERE host = {host:String}
        AND gpu = {gpu:String}
        AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
        AND ts < fromUnixTimestamp64Milli({at_ms:Int64}, 'UTC')
        AND ticks.duration_ms IS NOT NULL
    ORDER BY ts DESC
    LIMIT {limit:UInt32}
    UNION ALL
    SELECT
        toUnixTimestamp64Milli(ts) AS ts_ms,
        assumeNotNull(duration_ms) AS duration_ms
    FROM gua.card_ticks AS ticks FINAL
    WHERE host = {host:String}
        AND gpu = {gpu:String}
        AND ts >= fromUnixTimestamp64Milli({at_ms:Int64}, 'UTC')
        AND ts <= fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
        AND ticks.duration_ms IS NOT NULL
    ORDER BY ts ASC
    LIMIT {limit:UInt32}
)
ORDER BY ts_ms
