-- One row is one gauge point as the OpenTelemetry Collector's clickhouseexporter writes it.
-- On one host nothing is kept here: the materialized views of 10_ticks read what passes.
-- Shard key: ResourceAttributes['host.name']
CREATE TABLE IF NOT EXISTS gua.otel_metrics_gauge${LOCAL} $ON_CLUSTER
(
${OTEL_COLUMNS}
)
$LANDING_ENGINE
COMMENT 'Landing of OTLP gauge points, in the columns of the Collector''s clickhouseexporter'
