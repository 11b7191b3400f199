-- One row is one OTLP gauge point. An embedded store stores no rows: materialized views of 10_ticks read each insert.
-- Shard key: ResourceAttributes['host.name']
CREATE TABLE IF NOT EXISTS gua.otel_metrics_gauge${LOCAL} $ON_CLUSTER
(
${OTEL_COLUMNS}
)
$LANDING_ENGINE
COMMENT 'Landing of OTLP gauge points, in the columns of the Collector''s clickhouseexporter'
