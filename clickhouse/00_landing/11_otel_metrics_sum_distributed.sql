-- One row is one sum point. All points of a host go to one shard, where they merge into its ticks.
CREATE TABLE IF NOT EXISTS gua.otel_metrics_sum $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'otel_metrics_sum${LOCAL}', cityHash64(ResourceAttributes['host.name']))
COMMENT 'Landing of OTLP sum points, which it sends to the shard of their host'
