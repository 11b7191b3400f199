-- One row is how many reservations of one kind (run, manual) an owner had that were there at a tick of the window: of gua, and of an
-- imported history of canhazgpu.
CREATE OR REPLACE VIEW gua_report.reservations $ON_CLUSTER
$DEFINER
AS
SELECT
    toString(ticks.source) AS source,
    toNullable(toString(ticks.owner)) AS owner,
    toString(assumeNotNull(ticks.kind)) AS kind,
    uniqExact(host, allocation_id) AS reservations
FROM gua.allocation_ticks AS ticks
WHERE ticks.source IN ('gua', 'canhazgpu')
    AND ticks.kind IS NOT NULL
    AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    AND ts <= fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
    AND ${OF_HOSTS}
GROUP BY
    source,
    owner,
    kind
ORDER BY
    source,
    owner,
    kind
