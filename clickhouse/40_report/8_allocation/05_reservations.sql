-- One row is the number of reservations of one owner and kind (run, manual) with a tick in the window. Sources are gua and imported
-- canhazgpu histories. kind is empty where ticks have expired, as rollups have no kind.
CREATE OR REPLACE VIEW gua_report.reservations $ON_CLUSTER
$DEFINER
AS
SELECT
    source,
    owner,
    one_kind AS kind,
    count() AS reservations
FROM
(
    SELECT
        source,
        owner,
        host,
        allocation_id,
        max(known_kind) AS one_kind
    FROM
    (
        SELECT
            toString(ticks.source) AS source,
            toNullable(toString(ticks.owner)) AS owner,
            toString(host) AS host,
            toString(ticks.allocation_id) AS allocation_id,
            toString(assumeNotNull(ticks.kind)) AS known_kind
        FROM gua.allocation_ticks AS ticks
        WHERE ticks.source IN ('gua', 'canhazgpu')
            AND ticks.kind IS NOT NULL
            AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND ts <= fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
            AND ${OF_HOSTS}
        UNION ALL
        SELECT
            toString(rolled_up.source) AS source,
            toNullable(toString(rolled_up.owner)) AS owner,
            toString(host) AS host,
            toString(rolled_up.allocation_id) AS allocation_id,
            '' AS known_kind
        FROM gua.allocation_intervals AS rolled_up FINAL
        PREWHERE ${USED_HOURS}
        WHERE rolled_up.source IN ('gua', 'canhazgpu')
            AND gpu_us > 0
    )
    GROUP BY ALL
)
GROUP BY ALL
ORDER BY
    source,
    owner,
    kind
