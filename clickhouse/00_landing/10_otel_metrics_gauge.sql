-- One row is one gauge point as the OpenTelemetry Collector's clickhouseexporter writes it.
-- On one host nothing is kept here: the materialized views of 10_ticks read what passes.
-- Shard key: ResourceAttributes['host.name']
CREATE TABLE IF NOT EXISTS gua.otel_metrics_gauge${LOCAL} $ON_CLUSTER
(
    ResourceAttributes Map(LowCardinality(String), String) COMMENT 'Who sent the point: host.name, gua.source, ...' CODEC(ZSTD(1)),
    ResourceSchemaUrl String COMMENT 'Schema URL of the resource attributes' CODEC(ZSTD(1)),
    ScopeName String COMMENT 'gua for points of this project, gpu_usage_audit for those of before 0.1.0' CODEC(ZSTD(1)),
    ScopeVersion String COMMENT 'Version of the instrumentation' CODEC(ZSTD(1)),
    ScopeAttributes Map(LowCardinality(String), String) COMMENT 'Attributes of the instrumentation' CODEC(ZSTD(1)),
    ScopeDroppedAttrCount UInt32 COMMENT 'Scope attributes that the sender dropped' CODEC(ZSTD(1)),
    ScopeSchemaUrl String COMMENT 'Schema URL of the scope' CODEC(ZSTD(1)),
    ServiceName LowCardinality(String) COMMENT 'service.name of the sender' CODEC(ZSTD(1)),
    MetricName LowCardinality(String) COMMENT 'Name in the metric catalogue (docs/metrics.md)' CODEC(ZSTD(1)),
    MetricDescription String COMMENT 'Description of the metric' CODEC(ZSTD(1)),
    MetricUnit String COMMENT 'Unit of Value (UCUM)' CODEC(ZSTD(1)),
    Attributes Map(LowCardinality(String), String) COMMENT 'What the point is about: hw.id, process.pid, ...' CODEC(ZSTD(1)),
    StartTimeUnix DateTime64(9, 'UTC') COMMENT 'Start of the span of a sum' CODEC(Delta, ZSTD(1)),
    TimeUnix DateTime64(9, 'UTC') COMMENT 'Time of the tick' CODEC(Delta, ZSTD(1)),
    Value Float64 COMMENT 'The value, in MetricUnit' CODEC(ZSTD(1)),
    Flags UInt32 COMMENT 'OTLP flags; 1: no value recorded' CODEC(ZSTD(1)),
    Exemplars Nested (
        FilteredAttributes Map(LowCardinality(String), String),
        TimeUnix DateTime64(9, 'UTC'),
        Value Float64,
        SpanId String,
        TraceId String
    ) COMMENT 'Example measurements (not sent by this project)' CODEC(ZSTD(1))
)
$LANDING_ENGINE
COMMENT 'Landing of OTLP gauge points, in the columns of the Collector''s clickhouseexporter'
