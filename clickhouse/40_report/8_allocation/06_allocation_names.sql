-- One row is what an allocation of a card is called, and from when until when it was promised, told in the last hours of the window: asked
-- beside promises, as joining it there takes longer than asking it. A tick that begins after the window may tell a name, no end: that is
-- news of later.
CREATE OR REPLACE VIEW gua_report.allocation_names $ON_CLUSTER
$DEFINER
AS
WITH
    toUnixTimestamp64Milli(ts) - toInt64(ifNull(duration_ms, 0)) < {until_ms:Int64} AS is_inside
SELECT
    toString(host) AS host,
    toString(gpu) AS gpu,
    toString(source) AS source,
    toString(allocation_id) AS allocation_id,
    toNullable(toString(argMaxIf(kind, (is_inside, ts), kind IS NOT NULL))) AS kind,
    toNullable(toString(argMaxIf(job_name, (is_inside, ts), job_name IS NOT NULL))) AS job_name,
    toUnixTimestamp64Milli(argMaxIf(since, (is_inside, ts), since IS NOT NULL)) AS since_ms,
    toUnixTimestamp64Milli(argMaxIf(until, ts, is_inside AND until IS NOT NULL)) AS until_ms
FROM gua.allocation_ticks
-- Told at each tick: the newest ones are enough.
WHERE ts > fromUnixTimestamp64Milli(
        greatest({since_ms:Int64}, least({until_ms:Int64}, toUnixTimestamp64Milli(now64(3, 'UTC'))) - 10800000),
        'UTC'
    )
    AND ts <= fromUnixTimestamp64Milli({until_ms:Int64} + 3600000, 'UTC')
    AND ${OF_HOSTS}
GROUP BY ALL
ORDER BY
    host,
    gpu,
    source,
    allocation_id
