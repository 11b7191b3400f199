-- One row is what one sum point says of an allocation of a card in a tick; allocation_ticks merges them.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.sum_to_allocation_ticks $ON_CLUSTER TO gua.allocation_ticks${LOCAL} $DEFINER
AS
SELECT
    ResourceAttributes['host.name'] AS host,
    Attributes['hw.id'] AS gpu,
    toDateTime64(TimeUnix, 3, 'UTC') AS ts,
    Attributes['gua.allocation.source'] AS source,
    Attributes['gua.allocation.id'] AS allocation_id,
    if(MetricName = 'gua.gpu.allocation.duration' AND AggregationTemporality = 1,
        accurateCastOrNull(round(Value * 1000), 'UInt32'), NULL) AS duration_ms,
    if(MetricName = 'gua.gpu.allocation.time' AND AggregationTemporality = 1,
        accurateCastOrNull(round(Value * 1000), 'UInt32'), NULL) AS gpu_time_ms
FROM gua.otel_metrics_sum${LOCAL}
WHERE MetricName IN (
        'gua.gpu.allocation.duration',
        'gua.gpu.allocation.time'
    )
    AND ${CARD_POINT}
    AND Attributes['gua.allocation.source'] != ''
    AND Attributes['gua.allocation.id'] != ''
COMMENT 'Sum points into allocation_ticks'
