-- One row is one gauge point of ours whose time cannot be. The clock of such a host is wrong.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.gauge_to_refused_points $ON_CLUSTER TO gua.refused_points${LOCAL} $DEFINER
AS
SELECT
    ResourceAttributes['host.name'] AS host,
    toDate(now(), 'UTC') AS day,
    if(TimeUnix > now(), 'ahead', 'before-2000') AS reason,
    toUInt64(1) AS points,
    toDateTime64(TimeUnix, 3, 'UTC') AS newest
FROM gua.otel_metrics_gauge${LOCAL}
WHERE ${OUR_SCOPE}
    AND (
        TimeUnix < toDateTime64('2000-01-01 00:00:00', 3, 'UTC')
        OR TimeUnix > now() + toIntervalDay(1)
    )
COMMENT 'Gauge points of impossible times into refused_points'
