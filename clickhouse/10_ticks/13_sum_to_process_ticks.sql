-- One row is what one sum point says of a process on a card in a tick; process_ticks merges them.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.sum_to_process_ticks $ON_CLUSTER TO gua.process_ticks${LOCAL} $DEFINER
AS
SELECT
    ResourceAttributes['host.name'] AS host,
    Attributes['hw.id'] AS gpu,
    toDateTime64(TimeUnix, 3, 'UTC') AS ts,
    assumeNotNull(accurateCastOrNull(Attributes['process.pid'], 'UInt32')) AS pid,
    parseDateTime64BestEffortOrZero(Attributes['process.creation.time'], 3, 'UTC') AS created,
    if(MetricName = 'gua.process.sample.duration' AND AggregationTemporality = 1,
        accurateCastOrNull(round(Value * 1000), 'UInt32'), NULL) AS duration_ms,
    if(MetricName = 'gua.process.gpu.time' AND AggregationTemporality = 1,
        accurateCastOrNull(round(Value * 1000), 'UInt32'), NULL) AS gpu_time_ms,
    if(MetricName = 'gua.process.gpu.memory.usage' AND AggregationTemporality = 2,
        accurateCastOrNull(round(Value), 'UInt64'), NULL) AS memory_bytes,
    nullIf(Attributes['process.owner'], '') AS owner,
    nullIf(Attributes['gua.process.comm'], '') AS program
FROM gua.otel_metrics_sum${LOCAL}
WHERE MetricName IN (
        'gua.process.sample.duration',
        'gua.process.gpu.time',
        'gua.process.gpu.memory.usage'
    )
    AND ${CARD_POINT}
    AND accurateCastOrNull(Attributes['process.pid'], 'UInt32') IS NOT NULL
COMMENT 'Sum points into process_ticks'
