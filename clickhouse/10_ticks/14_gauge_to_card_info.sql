-- One row is one card as one tick described it.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.gauge_to_card_info $ON_CLUSTER TO gua.card_info${LOCAL} $DEFINER
AS
SELECT
    ResourceAttributes['host.name'] AS host,
    Attributes['hw.id'] AS gpu,
    toDateTime64(TimeUnix, 3, 'UTC') AS ts,
    toUInt16OrNull(Attributes['gua.gpu.index']) AS gpu_index,
    nullIf(Attributes['hw.name'], '') AS name,
    nullIf(Attributes['hw.model'], '') AS model,
    nullIf(Attributes['hw.vendor'], '') AS vendor,
    nullIf(Attributes['hw.driver_version'], '') AS driver_version,
    nullIf(Attributes['gua.gpu.pci'], '') AS pci,
    nullIf(Attributes['gua.gpu.mig'], '') AS mig,
    nullIf(Attributes['hw.parent'], '') AS parent,
    multiIf(
        Attributes['gua.gpu.memory.shared'] = 'true', true,
        Attributes['gua.gpu.memory.shared'] = 'false', false,
        NULL
    ) AS memory_shared,
    nullIf(ResourceAttributes['gua.source'], '') AS source,
    accurateCastOrNull(round(toFloat64OrNull(ResourceAttributes['gua.sample.interval']) * 1000), 'UInt32') AS interval_ms,
    ResourceAttributes AS labels
FROM gua.otel_metrics_gauge${LOCAL}
WHERE MetricName = 'gua.gpu.info'
    AND ${CARD_POINT}
COMMENT 'gua.gpu.info points into card_info'
