-- One row is one gauge point. All points of a host go to one shard, where they merge into its ticks.
CREATE TABLE IF NOT EXISTS gua.otel_metrics_gauge $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'otel_metrics_gauge${LOCAL}', cityHash64(ResourceAttributes['host.name']))
COMMENT 'Landing of OTLP gauge points, which it sends to the shard of their host'
