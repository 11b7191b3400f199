-- One row is one OTLP sum point. An embedded store stores no rows: materialized views of 10_ticks read each insert.
-- Shard key: ResourceAttributes['host.name']
CREATE TABLE IF NOT EXISTS gua.otel_metrics_sum${LOCAL} $ON_CLUSTER
(
${OTEL_COLUMNS},
    AggregationTemporality Int32 COMMENT '1 delta, 2 cumulative' CODEC(ZSTD(1)),
    IsMonotonic Boolean COMMENT 'Whether the sum is monotonic' CODEC(ZSTD(1))
)
$LANDING_ENGINE
COMMENT 'Landing of OTLP sum points, in the columns of the Collector''s clickhouseexporter'
