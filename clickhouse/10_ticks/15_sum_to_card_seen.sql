-- One row is the span of one card in one tick, twice: from its duration, and from its GPU time, which tells the share.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.sum_to_card_seen $ON_CLUSTER TO gua.card_seen $DEFINER
AS
SELECT
    ResourceAttributes['host.name'] AS host,
    Attributes['hw.id'] AS gpu,
    toDateTime64(StartTimeUnix, 3, 'UTC') AS first_seen,
    toDateTime64(TimeUnix, 3, 'UTC') AS last_seen,
    toUInt64(dateDiff('millisecond', first_seen, last_seen)) AS longest_ms,
    if(
        MetricName = 'gua.gpu.time',
        (last_seen, round(Value * 1000) / longest_ms),
        (toDateTime64(0, 3, 'UTC'), 1.)
    ) AS newest_share
FROM gua.otel_metrics_sum
WHERE MetricName IN ('gua.gpu.sample.duration', 'gua.gpu.time')
    AND ScopeName = 'gpu_usage_audit'
    AND ResourceAttributes['host.name'] != ''
    AND Attributes['hw.id'] != ''
    AND isFinite(Value)
    AND bitAnd(Flags, 1) = 0
    AND AggregationTemporality = 1
    AND StartTimeUnix < TimeUnix
    AND dateDiff('second', StartTimeUnix, TimeUnix) < 4294967
COMMENT 'Spans of cards into card_seen'
