-- One row is what one gauge point says of an allocation of a card in a tick; allocation_ticks merges them.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.gauge_to_allocation_ticks $ON_CLUSTER TO gua.allocation_ticks${LOCAL} $DEFINER
AS
SELECT
    ResourceAttributes['host.name'] AS host,
    Attributes['hw.id'] AS gpu,
    toDateTime64(TimeUnix, 3, 'UTC') AS ts,
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
    AND ${CARD_POINT}
    AND Attributes['gua.allocation.source'] != ''
    AND Attributes['gua.allocation.id'] != ''
COMMENT 'Gauge points into allocation_ticks'
