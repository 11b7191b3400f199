-- One row is what one sum point says of a card in a tick; card_ticks merges the points of a tick into one row.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.sum_to_card_ticks $ON_CLUSTER TO gua.card_ticks${LOCAL} $DEFINER
AS
SELECT
    ResourceAttributes['host.name'] AS host,
    Attributes['hw.id'] AS gpu,
    toDateTime64(TimeUnix, 3, 'UTC') AS ts,
    if(MetricName = 'gua.gpu.sample.duration' AND AggregationTemporality = 1,
        accurateCastOrNull(round(Value * 1000), 'UInt32'), NULL) AS duration_ms,
    if(MetricName = 'gua.gpu.time' AND AggregationTemporality = 1, accurateCastOrNull(round(Value * 1000), 'UInt32'), NULL) AS gpu_time_ms,
    if(MetricName = 'hw.gpu.memory.usage' AND AggregationTemporality = 2,
        accurateCastOrNull(round(Value), 'UInt64'), NULL) AS memory_used_bytes,
    if(MetricName = 'hw.gpu.memory.limit' AND AggregationTemporality = 2,
        accurateCastOrNull(round(Value), 'UInt64'), NULL) AS memory_limit_bytes,
    if(MetricName = 'gua.gpu.memory.reserved' AND AggregationTemporality = 2,
        accurateCastOrNull(round(Value), 'UInt64'), NULL) AS memory_reserved_bytes,
    if(MetricName = 'gua.gpu.process.memory.usage' AND Attributes['gua.process.type'] = 'compute' AND AggregationTemporality = 2,
        accurateCastOrNull(round(Value), 'UInt64'), NULL) AS process_memory_compute_bytes,
    if(MetricName = 'gua.gpu.process.memory.usage' AND Attributes['gua.process.type'] = 'graphics' AND AggregationTemporality = 2,
        accurateCastOrNull(round(Value), 'UInt64'), NULL) AS process_memory_graphics_bytes,
    if(MetricName = 'gua.gpu.process.memory.usage' AND Attributes['gua.process.type'] = 'mps' AND AggregationTemporality = 2,
        accurateCastOrNull(round(Value), 'UInt64'), NULL) AS process_memory_mps_bytes,
    if(MetricName = 'gua.gpu.process.memory.usage' AND Attributes['gua.process.type'] = 'ignored' AND AggregationTemporality = 2,
        accurateCastOrNull(round(Value), 'UInt64'), NULL) AS process_memory_ignored_bytes,
    if(MetricName = 'hw.energy' AND Attributes['hw.type'] = 'gpu' AND AggregationTemporality = 2,
        accurateCastOrNull(round(Value * 1000), 'UInt64'), NULL) AS energy_total_mj,
    if(MetricName = 'gua.gpu.energy' AND AggregationTemporality = 1, accurateCastOrNull(round(Value * 1000), 'UInt64'), NULL) AS energy_mj,
    if(MetricName = 'hw.status' AND Attributes['hw.state'] = 'failed' AND Attributes['hw.type'] = 'gpu' AND AggregationTemporality = 2,
        accurateCastOrNull(round(Value), 'UInt8'), NULL) AS failed,
    if(MetricName = 'gua.gpu.sample.duration', nullIf(ResourceAttributes['gua.source'], ''), NULL) AS source,
    if(MetricName = 'gua.gpu.sample.duration',
        accurateCastOrNull(round(toFloat64OrNull(ResourceAttributes['gua.sample.interval']) * 1000), 'UInt32'), NULL) AS interval_ms,
    if(MetricName = 'gua.gpu.unallocated.time' AND AggregationTemporality = 1,
        accurateCastOrNull(round(Value * 1000), 'UInt32'), NULL) AS unallocated_gpu_time_ms,
    if(MetricName = 'gua.gpu.idle.time' AND AggregationTemporality = 1,
        accurateCastOrNull(round(Value * 1000), 'UInt32'), NULL) AS idle_time_ms,
    if(MetricName = 'gua.gpu.idle.energy' AND AggregationTemporality = 1,
        accurateCastOrNull(round(Value * 1000), 'UInt64'), NULL) AS idle_energy_mj,
    if(MetricName = 'hw.errors' AND Attributes['error.type'] = 'xid' AND Attributes['hw.type'] = 'gpu' AND AggregationTemporality = 1,
        accurateCastOrNull(round(Value), 'UInt32'), NULL) AS xid_errors,
    if(MetricName = 'hw.errors' AND Attributes['error.type'] = 'ecc_uncorrected' AND Attributes['hw.type'] = 'gpu'
            AND AggregationTemporality = 1,
        accurateCastOrNull(round(Value), 'UInt32'), NULL) AS ecc_errors
FROM gua.otel_metrics_sum${LOCAL}
WHERE MetricName IN (
        'gua.gpu.sample.duration',
        'gua.gpu.time',
        'hw.gpu.memory.usage',
        'hw.gpu.memory.limit',
        'gua.gpu.memory.reserved',
        'gua.gpu.process.memory.usage',
        'hw.energy',
        'gua.gpu.energy',
        'hw.status',
        'gua.gpu.unallocated.time',
        'gua.gpu.idle.time',
        'gua.gpu.idle.energy',
        'hw.errors'
    )
    AND ${CARD_POINT}
COMMENT 'Sum points into card_ticks'
