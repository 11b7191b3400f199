-- One row is one gauge point of a card; gua.card_ticks merges the points of a tick.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.gauge_to_card_ticks $ON_CLUSTER TO gua.card_ticks${LOCAL} $DEFINER
AS
WITH
    accurateCastOrNull(round(Value), 'UInt32') AS count,
    accurateCastOrNull(round(Value * 10000), 'UInt16') AS ratio,
    Attributes['gua.process.type'] AS type,
    Attributes['gua.gpu.memory.shared'] AS shared
SELECT
    ${TICK_KEY},
    if(MetricName = 'hw.gpu.utilization' AND Attributes['hw.gpu.task'] = 'general', ratio, NULL) AS utilization,
    if(MetricName = 'hw.gpu.utilization' AND Attributes['hw.gpu.task'] = 'encoder', ratio, NULL) AS utilization_encoder,
    if(MetricName = 'hw.gpu.utilization' AND Attributes['hw.gpu.task'] = 'decoder', ratio, NULL) AS utilization_decoder,
    if(MetricName = 'gua.gpu.utilization.max', ratio, NULL) AS utilization_max,
    if(MetricName = 'gua.gpu.utilization.coverage', accurateCastOrNull(round(Value * 1000), 'UInt32'), NULL) AS utilization_coverage_ms,
    if(MetricName = 'gua.gpu.processes' AND type = 'compute', count, NULL) AS process_count_compute,
    if(MetricName = 'gua.gpu.processes' AND type = 'graphics', count, NULL) AS process_count_graphics,
    if(MetricName = 'gua.gpu.processes' AND type = 'mps', count, NULL) AS process_count_mps,
    if(MetricName = 'gua.gpu.processes' AND type = 'ignored', count, NULL) AS process_count_ignored,
    if(MetricName = 'gua.gpu.process.memory.unknown' AND type = 'compute', count, NULL) AS process_unknown_compute,
    if(MetricName = 'gua.gpu.process.memory.unknown' AND type = 'graphics', count, NULL) AS process_unknown_graphics,
    if(MetricName = 'gua.gpu.process.memory.unknown' AND type = 'mps', count, NULL) AS process_unknown_mps,
    if(MetricName = 'gua.gpu.process.memory.unknown' AND type = 'ignored', count, NULL) AS process_unknown_ignored,
    if(MetricName = 'gua.gpu.process.utilization.max', ratio, NULL) AS process_utilization_max,
    if(MetricName = 'hw.power' AND Attributes['hw.type'] = 'gpu', accurateCastOrNull(round(Value * 1000), 'UInt32'), NULL) AS power_mw,
    if(MetricName = 'hw.temperature', accurateCastOrNull(round(Value), 'Int16'), NULL) AS temperature_celsius,
    if(MetricName = 'gua.gpu.info', nullIf(Attributes['gua.gpu.process.list'], ''), NULL) AS process_list,
    if(MetricName = 'gua.gpu.info' AND shared IN ('true', 'false'), shared = 'true', NULL) AS memory_shared,
    if(MetricName = 'gua.gpu.info', nullIf(Attributes['gua.gpu.mig'], ''), NULL) AS mig,
    if(MetricName = 'gua.gpu.info', nullIf(Attributes['gua.gpu.allocation'], ''), NULL) AS allocation,
    if(MetricName = 'gua.gpu.idle.energy.coverage', accurateCastOrNull(round(Value * 1000), 'UInt32'), NULL) AS idle_energy_coverage_ms,
    if(MetricName = 'gua.gpu.clock.reasons', count, NULL) AS clock_reasons,
    if(MetricName = 'gua.gpu.xid', accurateCastOrNull(round(Value), 'UInt16'), NULL) AS xid,
    if(MetricName = 'gua.gpu.row.remap', accurateCastOrNull(round(Value), 'UInt8'), NULL) AS row_remap,
    if(MetricName = 'gua.gpu.recovery.action', count, NULL) AS recovery_action,
    if(MetricName = 'gua.gpu.sm.utilization', accurateCastOrNull(round(Value * 200), 'UInt8'), NULL) AS sm_utilization,
    if(MetricName = 'gua.gpu.sm.occupancy', accurateCastOrNull(round(Value * 200), 'UInt8'), NULL) AS sm_occupancy,
    if(MetricName = 'gua.gpu.tensor.utilization', accurateCastOrNull(round(Value * 200), 'UInt8'), NULL) AS tensor_utilization,
    if(MetricName = 'gua.gpu.memory.bandwidth.utilization',
        accurateCastOrNull(round(Value * 200), 'UInt8'), NULL) AS memory_bandwidth_utilization
FROM gua.otel_metrics_gauge${LOCAL}
WHERE MetricName IN (
        'hw.gpu.utilization',
        'gua.gpu.utilization.max',
        'gua.gpu.utilization.coverage',
        'gua.gpu.processes',
        'gua.gpu.process.memory.unknown',
        'gua.gpu.process.utilization.max',
        'hw.power',
        'hw.temperature',
        'gua.gpu.info',
        'gua.gpu.idle.energy.coverage',
        'gua.gpu.clock.reasons',
        'gua.gpu.xid',
        'gua.gpu.row.remap',
        'gua.gpu.recovery.action',
        'gua.gpu.sm.utilization',
        'gua.gpu.sm.occupancy',
        'gua.gpu.tensor.utilization',
        'gua.gpu.memory.bandwidth.utilization'
    )
    AND ${VALID_POINT}
    AND Attributes['hw.id'] != ''
COMMENT 'Gauge points into card_ticks'
;
-- One row is one sum point of a card; gua.card_ticks merges the points of a tick.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.sum_to_card_ticks $ON_CLUSTER TO gua.card_ticks${LOCAL} $DEFINER
AS
WITH
    accurateCastOrNull(round(Value), 'UInt32') AS count,
    accurateCastOrNull(round(Value), 'UInt64') AS bytes,
    accurateCastOrNull(round(Value * 1000), 'UInt32') AS ms,
    accurateCastOrNull(round(Value * 1000), 'UInt64') AS mj,
    Attributes['gua.process.type'] AS type,
    Attributes['hw.type'] = 'gpu' AS is_gpu,
    AggregationTemporality = 1 AS is_delta,
    AggregationTemporality = 2 AS is_cumulative
SELECT
    ${TICK_KEY},
    if(MetricName = 'gua.gpu.sample.duration' AND is_delta, ms, NULL) AS duration_ms,
    if(MetricName = 'gua.gpu.time' AND is_delta, ms, NULL) AS gpu_time_ms,
    if(MetricName = 'hw.gpu.memory.usage' AND is_cumulative, bytes, NULL) AS memory_used_bytes,
    if(MetricName = 'hw.gpu.memory.limit' AND is_cumulative, bytes, NULL) AS memory_limit_bytes,
    if(MetricName = 'gua.gpu.memory.reserved' AND is_cumulative, bytes, NULL) AS memory_reserved_bytes,
    if(MetricName = 'gua.gpu.process.memory.usage' AND type = 'compute' AND is_cumulative, bytes, NULL) AS process_memory_compute_bytes,
    if(MetricName = 'gua.gpu.process.memory.usage' AND type = 'graphics' AND is_cumulative, bytes, NULL) AS process_memory_graphics_bytes,
    if(MetricName = 'gua.gpu.process.memory.usage' AND type = 'mps' AND is_cumulative, bytes, NULL) AS process_memory_mps_bytes,
    if(MetricName = 'gua.gpu.process.memory.usage' AND type = 'ignored' AND is_cumulative, bytes, NULL) AS process_memory_ignored_bytes,
    if(MetricName = 'hw.energy' AND is_gpu AND is_cumulative, mj, NULL) AS energy_total_mj,
    if(MetricName = 'gua.gpu.energy' AND is_delta, mj, NULL) AS energy_mj,
    if(MetricName = 'hw.status' AND Attributes['hw.state'] = 'failed' AND is_gpu AND is_cumulative,
        accurateCastOrNull(round(Value), 'UInt8'), NULL) AS failed,
    if(MetricName = 'gua.gpu.sample.duration', nullIf(ResourceAttributes['gua.source'], ''), NULL) AS source,
    if(MetricName = 'gua.gpu.sample.duration',
        accurateCastOrNull(round(toFloat64OrNull(ResourceAttributes['gua.sample.interval']) * 1000), 'UInt32'), NULL) AS interval_ms,
    if(MetricName = 'gua.gpu.unallocated.time' AND is_delta, ms, NULL) AS unallocated_gpu_time_ms,
    if(MetricName = 'gua.gpu.idle.time' AND is_delta, ms, NULL) AS idle_time_ms,
    if(MetricName = 'gua.gpu.idle.energy' AND is_delta, mj, NULL) AS idle_energy_mj,
    if(MetricName = 'hw.errors' AND Attributes['error.type'] = 'xid' AND is_gpu AND is_delta, count, NULL) AS xid_errors,
    if(MetricName = 'hw.errors' AND Attributes['error.type'] = 'ecc_uncorrected' AND is_gpu AND is_delta, count, NULL) AS ecc_errors
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
    AND ${VALID_POINT}
    AND Attributes['hw.id'] != ''
COMMENT 'Sum points into card_ticks'
;
-- One row is one gauge point of a process on a card; gua.process_ticks merges the points of a tick.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.gauge_to_process_ticks $ON_CLUSTER TO gua.process_ticks${LOCAL} $DEFINER
AS
SELECT
    ${TICK_KEY},
    assumeNotNull(accurateCastOrNull(Attributes['process.pid'], 'UInt32')) AS pid,
    parseDateTime64BestEffortOrZero(Attributes['process.creation.time'], 3, 'UTC') AS created,
    if(MetricName = 'gua.process.gpu.utilization', accurateCastOrNull(round(Value * 10000), 'UInt16'), NULL) AS utilization,
    if(MetricName = 'gua.process.info', accurateCastOrNull(Attributes['process.user.id'], 'UInt32'), NULL) AS uid,
    if(MetricName = 'gua.process.info', nullIf(Attributes['gua.process.type'], ''), NULL) AS type,
    if(MetricName = 'gua.process.info', nullIf(Attributes['container.id'], ''), NULL) AS container_id,
    if(MetricName = 'gua.process.info', nullIf(Attributes['k8s.pod.uid'], ''), NULL) AS pod_uid,
    if(MetricName = 'gua.process.info', nullIf(Attributes['slurm.job.id'], ''), NULL) AS slurm_job_id,
    if(MetricName = 'gua.process.info', nullIf(Attributes['systemd.unit'], ''), NULL) AS systemd_unit,
    if(MetricName = 'gua.process.info', nullIf(Attributes['gua.workload.kind'], ''), NULL) AS workload_kind,
    if(MetricName = 'gua.process.info', nullIf(Attributes['gua.workload.model'], ''), NULL) AS workload_model
FROM gua.otel_metrics_gauge${LOCAL}
WHERE MetricName IN (
        'gua.process.gpu.utilization',
        'gua.process.info'
    )
    AND ${VALID_POINT}
    AND Attributes['hw.id'] != ''
    AND accurateCastOrNull(Attributes['process.pid'], 'UInt32') IS NOT NULL
COMMENT 'Gauge points into process_ticks'
;
-- One row is one sum point of a process on a card; gua.process_ticks merges the points of a tick.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.sum_to_process_ticks $ON_CLUSTER TO gua.process_ticks${LOCAL} $DEFINER
AS
SELECT
    ${TICK_KEY},
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
    AND ${VALID_POINT}
    AND Attributes['hw.id'] != ''
    AND accurateCastOrNull(Attributes['process.pid'], 'UInt32') IS NOT NULL
COMMENT 'Sum points into process_ticks'
;
-- One row is one card, as described by one tick.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.gauge_to_card_info $ON_CLUSTER TO gua.card_info${LOCAL} $DEFINER
AS
SELECT
    ${TICK_KEY},
    toUInt16OrNull(Attributes['gua.gpu.index']) AS gpu_index,
    nullIf(Attributes['hw.name'], '') AS name,
    nullIf(Attributes['hw.model'], '') AS model,
    nullIf(Attributes['hw.vendor'], '') AS vendor,
    nullIf(Attributes['hw.driver_version'], '') AS driver_version,
    nullIf(Attributes['gua.gpu.pci'], '') AS pci,
    nullIf(Attributes['gua.gpu.mig'], '') AS mig,
    nullIf(Attributes['hw.parent'], '') AS parent,
    if(Attributes['gua.gpu.memory.shared'] IN ('true', 'false'), Attributes['gua.gpu.memory.shared'] = 'true', NULL) AS memory_shared,
    nullIf(ResourceAttributes['gua.source'], '') AS source,
    accurateCastOrNull(round(toFloat64OrNull(ResourceAttributes['gua.sample.interval']) * 1000), 'UInt32') AS interval_ms,
    ResourceAttributes AS labels
FROM gua.otel_metrics_gauge${LOCAL}
WHERE MetricName = 'gua.gpu.info'
    AND ${VALID_POINT}
    AND Attributes['hw.id'] != ''
COMMENT 'gua.gpu.info points into card_info'
;
-- One row is one card in one tick, from the point of its duration or of its GPU time. GPU time yields the share of a GPU.
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
    -- Landing tables with times in whole seconds truncate both ends. Their span may be up to 1 s shorter or longer than the tick.
    greatest(span_ms, toUInt64(least(value_ms, toFloat64(span_ms + 1000)))) AS longest_ms,
    if(
        MetricName = 'gua.gpu.time',
        (last_seen, if(toTypeName(TimeUnix) LIKE 'DateTime64%' OR abs(value_ms - span_ms) >= 1000, least(value_ms / span_ms, 1.), 1.)),
        (toDateTime64(0, 3, 'UTC'), 1.)
    ) AS newest_share
FROM gua.otel_metrics_sum${LOCAL}
WHERE MetricName IN ('gua.gpu.sample.duration', 'gua.gpu.time')
    AND ${VALID_POINT}
    AND Attributes['hw.id'] != ''
    AND AggregationTemporality = 1
    AND accurateCastOrNull(round(Value * 1000), 'UInt32') IS NOT NULL
    AND dateDiff('millisecond', StartTimeUnix, TimeUnix) > 0
    AND dateDiff('second', StartTimeUnix, TimeUnix) < 4294967
COMMENT 'First and last ticks of cards into card_seen'
;
-- One row is one tick of an agent. Each tick has a point with the tick's duration, even if no card was readable.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.gauge_to_agents $ON_CLUSTER TO gua.agents${LOCAL} $DEFINER
AS
SELECT
    ResourceAttributes['host.name'] AS host,
    ResourceAttributes['service.instance.id'] AS instance,
    ResourceAttributes['host.id'] AS host_id,
    toDate(TimeUnix, 'UTC') AS day,
    toDateTime64(TimeUnix, 3, 'UTC') AS first_seen,
    first_seen AS last_seen,
    CAST($RECEIVED, 'Nullable(DateTime64(3, \'UTC\'))') AS last_received,
    dateDiff('millisecond', first_seen, last_received) AS least_delay_ms,
    (
        first_seen,
        -least_delay_ms,
        ResourceAttributes['service.version'],
        ResourceAttributes['gua.source'],
        ifNull(accurateCastOrNull(round(toFloat64OrNull(ResourceAttributes['gua.sample.interval']) * 1000), 'UInt32'), 0)
    ) AS newest
FROM gua.otel_metrics_gauge${LOCAL}
WHERE MetricName = 'gua.agent.tick.duration'
    AND ${VALID_POINT}
COMMENT 'Ticks of agents into agents'
;
-- One row is one gauge point of this project with an impossible time: the clock of its host is wrong.
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
COMMENT 'Gauge points with impossible times into refused_points'
;
-- One row is one sum point of this project with an impossible time: the clock of its host is wrong.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.sum_to_refused_points $ON_CLUSTER TO gua.refused_points${LOCAL} $DEFINER
AS
SELECT
    ResourceAttributes['host.name'] AS host,
    toDate(now(), 'UTC') AS day,
    if(TimeUnix > now(), 'ahead', 'before-2000') AS reason,
    toUInt64(1) AS points,
    toDateTime64(TimeUnix, 3, 'UTC') AS newest
FROM gua.otel_metrics_sum${LOCAL}
WHERE ${OUR_SCOPE}
    AND (
        TimeUnix < toDateTime64('2000-01-01 00:00:00', 3, 'UTC')
        OR TimeUnix > now() + toIntervalDay(1)
    )
COMMENT 'Sum points with impossible times into refused_points'
;
-- One row is one gauge point of an allocation of a card; gua.allocation_ticks merges the points of a tick.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.gauge_to_allocation_ticks $ON_CLUSTER TO gua.allocation_ticks${LOCAL} $DEFINER
AS
SELECT
    ${TICK_KEY},
    Attributes['gua.allocation.source'] AS source,
    Attributes['gua.allocation.id'] AS allocation_id,
    nullIf(Attributes['gua.allocation.relation'], '') AS relation,
    nullIf(Attributes['gua.allocation.owner'], '') AS owner,
    accurateCastOrNull(Attributes['gua.allocation.user.id'], 'UInt32') AS uid,
    nullIf(Attributes['gua.allocation.kind'], '') AS kind,
    parseDateTime64BestEffortOrNull(Attributes['gua.allocation.since'], 3, 'UTC') AS since,
    parseDateTime64BestEffortOrNull(Attributes['gua.allocation.until'], 3, 'UTC') AS until,
    nullIf(Attributes['slurm.job.name'], '') AS job_name,
    nullIf(Attributes['k8s.pod.uid'], '') AS pod_uid,
    nullIf(Attributes['k8s.pod.name'], '') AS pod_name,
    nullIf(Attributes['k8s.namespace.name'], '') AS pod_namespace,
    nullIf(Attributes['gua.workload.kind'], '') AS workload_kind,
    nullIf(Attributes['gua.workload.model'], '') AS workload_model
FROM gua.otel_metrics_gauge${LOCAL}
WHERE MetricName IN ('gua.gpu.allocation.info')
    AND ${VALID_POINT}
    AND Attributes['hw.id'] != ''
    AND Attributes['gua.allocation.source'] != ''
    AND Attributes['gua.allocation.id'] != ''
COMMENT 'Gauge points into allocation_ticks'
;
-- One row is one sum point of an allocation of a card; gua.allocation_ticks merges the points of a tick.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.sum_to_allocation_ticks $ON_CLUSTER TO gua.allocation_ticks${LOCAL} $DEFINER
AS
SELECT
    ${TICK_KEY},
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
    AND ${VALID_POINT}
    AND Attributes['hw.id'] != ''
    AND Attributes['gua.allocation.source'] != ''
    AND Attributes['gua.allocation.id'] != ''
COMMENT 'Sum points into allocation_ticks'
;
-- One row is one sum point of an allocation source; gua.allocation_source_ticks merges the points of a tick.
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
    AND ${VALID_POINT}
    AND Attributes['gua.allocation.source'] != ''
COMMENT 'Sum points into allocation_source_ticks'
;
-- One row is one gauge point of an allocation source: its waiting requests at the end of a tick.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.gauge_to_allocation_source_ticks $ON_CLUSTER TO gua.allocation_source_ticks${LOCAL} $DEFINER
AS
SELECT
    ResourceAttributes['host.name'] AS host,
    Attributes['gua.allocation.source'] AS source,
    toDateTime64(TimeUnix, 3, 'UTC') AS ts,
    if(MetricName = 'gua.queue.waiting', accurateCastOrNull(round(Value), 'UInt32'), NULL) AS waiting
FROM gua.otel_metrics_gauge${LOCAL}
WHERE MetricName IN ('gua.queue.waiting')
    AND ${VALID_POINT}
    AND Attributes['gua.allocation.source'] != ''
COMMENT 'Gauge points into allocation_source_ticks'
