-- One row is how many reservations of one kind (run, manual) an owner had that were there at a tick of the window.
CREATE OR REPLACE VIEW gua_report.reservations $ON_CLUSTER
$DEFINER
AS
SELECT
    toNullable(toString(owner)) AS owner,
    toString(assumeNotNull(kind)) AS kind,
    uniqExact(host, allocation_id) AS reservations
FROM gua.allocation_ticks
WHERE source = 'gua'
    AND kind IS NOT NULL
    AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    AND ts <= fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
    AND ${OF_HOSTS}
GROUP BY
    owner,
    kind
ORDER BY
    owner,
    kind
