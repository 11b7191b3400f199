-- One row is what one gauge point says of a process on a card in a tick; process_ticks merges them.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.gauge_to_process_ticks $ON_CLUSTER TO gua.process_ticks${LOCAL} $DEFINER
AS
SELECT
    ResourceAttributes['host.name'] AS host,
    Attributes['hw.id'] AS gpu,
    toDateTime64(TimeUnix, 3, 'UTC') AS ts,
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
    AND ${CARD_POINT}
    AND accurateCastOrNull(Attributes['process.pid'], 'UInt32') IS NOT NULL
COMMENT 'Gauge points into process_ticks'
