-- One row is what one point says of a source of allocations in a tick.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.sum_to_allocation_source_ticks $ON_CLUSTER TO gua.allocation_source_ticks${LOCAL} $DEFINER
AS
SELECT
    ResourceAttributes['host.name'] AS host,
    Attributes['gua.allocation.source'] AS source,
    toDateTime64(TimeUnix, 3, 'UTC') AS ts,
    if(MetricName = 'gua.allocation.source.duration' AND AggregationTemporality = 1,
        accurateCastOrNull(round(Value * 1000), 'UInt32'), NULL) AS duration_ms,
    nullIf(Attributes['gua.allocation.source.status'], '') AS status,
    nullIf(Attributes['gua.allocation.source.reason'], '') AS reason,
    if(MetricName = 'gua.queue.wait.time' AND AggregationTemporality = 1,
        accurateCastOrNull(round(Value * 1000), 'UInt64'), NULL) AS wait_ms,
    if(MetricName = 'gua.queue.time' AND AggregationTemporality = 1,
        accurateCastOrNull(round(Value * 1000), 'UInt32'), NULL) AS waited_ms
FROM gua.otel_metrics_sum${LOCAL}
WHERE MetricName IN ('gua.allocation.source.duration', 'gua.queue.wait.time', 'gua.queue.time')
    AND ${OUR_SCOPE}
    AND ResourceAttributes['host.name'] != ''
    AND Attributes['gua.allocation.source'] != ''
    AND isFinite(Value)
    AND bitAnd(Flags, 1) = 0
    AND ${POSSIBLE_TIME}
COMMENT 'Sum points into allocation_source_ticks'
