-- One row is what one gauge point says of a card in a tick; card_ticks merges the points of a tick into one row.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.gauge_to_card_ticks $ON_CLUSTER TO gua.card_ticks${LOCAL} $DEFINER
AS
SELECT
    ResourceAttributes['host.name'] AS host,
    Attributes['hw.id'] AS gpu,
    toDateTime64(TimeUnix, 3, 'UTC') AS ts,
    if(MetricName = 'hw.gpu.utilization' AND Attributes['hw.gpu.task'] = 'general',
        accurateCastOrNull(round(Value * 10000), 'UInt16'), NULL) AS utilization,
    if(MetricName = 'hw.gpu.utilization' AND Attributes['hw.gpu.task'] = 'encoder',
        accurateCastOrNull(round(Value * 10000), 'UInt16'), NULL) AS utilization_encoder,
    if(MetricName = 'hw.gpu.utilization' AND Attributes['hw.gpu.task'] = 'decoder',
        accurateCastOrNull(round(Value * 10000), 'UInt16'), NULL) AS utilization_decoder,
    if(MetricName = 'gua.gpu.utilization.max', accurateCastOrNull(round(Value * 10000), 'UInt16'), NULL) AS utilization_max,
    if(MetricName = 'gua.gpu.utilization.coverage', accurateCastOrNull(round(Value * 1000), 'UInt32'), NULL) AS utilization_coverage_ms,
    if(MetricName = 'gua.gpu.process.count' AND Attributes['gua.process.type'] = 'compute',
        accurateCastOrNull(round(Value), 'UInt32'), NULL) AS process_count_compute,
    if(MetricName = 'gua.gpu.process.count' AND Attributes['gua.process.type'] = 'graphics',
        accurateCastOrNull(round(Value), 'UInt32'), NULL) AS process_count_graphics,
    if(MetricName = 'gua.gpu.process.count' AND Attributes['gua.process.type'] = 'mps',
        accurateCastOrNull(round(Value), 'UInt32'), NULL) AS process_count_mps,
    if(MetricName = 'gua.gpu.process.count' AND Attributes['gua.process.type'] = 'ignored',
        accurateCastOrNull(round(Value), 'UInt32'), NULL) AS process_count_ignored,
    if(MetricName = 'gua.gpu.process.memory.unknown' AND Attributes['gua.process.type'] = 'compute',
        accurateCastOrNull(round(Value), 'UInt32'), NULL) AS process_unknown_compute,
    if(MetricName = 'gua.gpu.process.memory.unknown' AND Attributes['gua.process.type'] = 'graphics',
        accurateCastOrNull(round(Value), 'UInt32'), NULL) AS process_unknown_graphics,
    if(MetricName = 'gua.gpu.process.memory.unknown' AND Attributes['gua.process.type'] = 'mps',
        accurateCastOrNull(round(Value), 'UInt32'), NULL) AS process_unknown_mps,
    if(MetricName = 'gua.gpu.process.memory.unknown' AND Attributes['gua.process.type'] = 'ignored',
        accurateCastOrNull(round(Value), 'UInt32'), NULL) AS process_unknown_ignored,
    if(MetricName = 'gua.gpu.process.utilization.max', accurateCastOrNull(round(Value * 10000), 'UInt16'), NULL) AS process_utilization_max,
    if(MetricName = 'hw.power' AND Attributes['hw.type'] = 'gpu', accurateCastOrNull(round(Value * 1000), 'UInt32'), NULL) AS power_mw,
    if(MetricName = 'hw.temperature', accurateCastOrNull(round(Value), 'Int16'), NULL) AS temperature_celsius,
    if(MetricName = 'gua.gpu.info', nullIf(Attributes['gua.gpu.process.list'], ''), NULL) AS process_list,
    if(MetricName = 'gua.gpu.info',
        multiIf(
            Attributes['gua.gpu.memory.shared'] = 'true', true,
            Attributes['gua.gpu.memory.shared'] = 'false', false,
            NULL
        ), NULL) AS memory_shared,
    if(MetricName = 'gua.gpu.info', nullIf(Attributes['gua.gpu.mig'], ''), NULL) AS mig,
    if(MetricName = 'gua.gpu.info', nullIf(Attributes['gua.gpu.allocation'], ''), NULL) AS allocation,
    if(MetricName = 'gua.gpu.idle.energy.coverage', accurateCastOrNull(round(Value * 1000), 'UInt32'), NULL) AS idle_energy_coverage_ms,
    if(MetricName = 'gua.gpu.clock.reasons', accurateCastOrNull(round(Value), 'UInt32'), NULL) AS clock_reasons,
    if(MetricName = 'gua.gpu.xid', accurateCastOrNull(round(Value), 'UInt16'), NULL) AS xid,
    if(MetricName = 'gua.gpu.row.remap', accurateCastOrNull(round(Value), 'UInt8'), NULL) AS row_remap
FROM gua.otel_metrics_gauge${LOCAL}
WHERE MetricName IN (
        'hw.gpu.utilization',
        'gua.gpu.utilization.max',
        'gua.gpu.utilization.coverage',
        'gua.gpu.process.count',
        'gua.gpu.process.memory.unknown',
        'gua.gpu.process.utilization.max',
        'hw.power',
        'hw.temperature',
        'gua.gpu.info',
        'gua.gpu.idle.energy.coverage',
        'gua.gpu.clock.reasons',
        'gua.gpu.xid',
        'gua.gpu.row.remap'
    )
    AND ${CARD_POINT}
COMMENT 'Gauge points into card_ticks'
