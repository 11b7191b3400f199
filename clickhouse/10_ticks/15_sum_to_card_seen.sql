-- One row is the span of one card in one tick.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.sum_to_card_seen $ON_CLUSTER TO gua.card_seen $DEFINER
AS
SELECT
    ResourceAttributes['host.name'] AS host,
    Attributes['hw.id'] AS gpu,
    toDateTime64(TimeUnix, 3, 'UTC') - toIntervalMillisecond(toInt64(round(Value * 1000))) AS first_seen,
    toDateTime64(TimeUnix, 3, 'UTC') AS last_seen,
    toUInt64(round(Value * 1000)) AS longest_ms
FROM gua.otel_metrics_sum
WHERE MetricName = 'gua.gpu.sample.duration'
    AND ScopeName = 'gpu_usage_audit'
    AND ResourceAttributes['host.name'] != ''
    AND Attributes['hw.id'] != ''
    AND isFinite(Value)
    AND bitAnd(Flags, 1) = 0
    AND AggregationTemporality = 1
    AND Value > 0
    AND Value < 4294967
COMMENT 'Sample durations into card_seen'
