-- One row is how many requests wait at a source of allocations at the end of a tick.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.gauge_to_allocation_source_ticks $ON_CLUSTER TO gua.allocation_source_ticks${LOCAL} $DEFINER
AS
SELECT
    ResourceAttributes['host.name'] AS host,
    Attributes['gua.allocation.source'] AS source,
    toDateTime64(TimeUnix, 3, 'UTC') AS ts,
    if(MetricName = 'gua.queue.waiting', accurateCastOrNull(round(Value), 'UInt32'), NULL) AS waiting
FROM gua.otel_metrics_gauge${LOCAL}
WHERE MetricName IN ('gua.queue.waiting')
    AND ${OUR_SCOPE}
    AND ResourceAttributes['host.name'] != ''
    AND Attributes['gua.allocation.source'] != ''
    AND isFinite(Value)
    AND bitAnd(Flags, 1) = 0
    AND ${POSSIBLE_TIME}
COMMENT 'Gauge points into allocation_source_ticks'
