-- One row is the span of one card in one tick, twice: from its duration, and from its GPU time, which tells the share.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.sum_to_card_seen $ON_CLUSTER TO gua.card_seen${LOCAL} $DEFINER
AS
WITH
    round(Value * 1000) AS value_ms,
    toUInt64(dateDiff('millisecond', first_seen, last_seen)) AS span_ms
SELECT
    ResourceAttributes['host.name'] AS host,
    Attributes['hw.id'] AS gpu,
    toDateTime64(StartTimeUnix, 3, 'UTC') AS first_seen,
    toDateTime64(TimeUnix, 3, 'UTC') AS last_seen,
    -- Landing tables of whole seconds cut both ends: there the span is up to a second shorter or longer than the tick.
    greatest(span_ms, toUInt64(least(value_ms, toFloat64(span_ms + 1000)))) AS longest_ms,
    if(
        MetricName = 'gua.gpu.time',
        (last_seen, if(toTypeName(TimeUnix) LIKE 'DateTime64%' OR abs(value_ms - toFloat64(span_ms)) >= 1000, value_ms / span_ms, 1.)),
        (toDateTime64(0, 3, 'UTC'), 1.)
    ) AS newest_share
FROM gua.otel_metrics_sum${LOCAL}
WHERE MetricName IN ('gua.gpu.sample.duration', 'gua.gpu.time')
    AND ${CARD_POINT}
    AND AggregationTemporality = 1
    AND accurateCastOrNull(round(Value * 1000), 'UInt32') IS NOT NULL
    AND StartTimeUnix < TimeUnix
    AND dateDiff('second', StartTimeUnix, TimeUnix) < 4294967
COMMENT 'Spans of cards into card_seen'
