-- One row is one gauge point of a request. protobuf reads an absent value and a zero alike, so the
-- attributes known to be integers or booleans have their own rule.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.otlp_requests_to_gauge $ON_CLUSTER TO gua.otel_metrics_gauge $DEFINER
AS
WITH
    arrayJoin(scope_metrics) AS scoped,
    arrayJoin(scoped.metrics) AS metric,
    arrayJoin(metric.gauge.data_points) AS point
SELECT
    CAST(
        (
            resource.attributes.key,
            arrayMap(
                kv -> multiIf(
                    kv.value.string_value != '', kv.value.string_value,
                    kv.key IN ('gua.gpu.index', 'process.pid', 'process.user.id', 'gua.allocation.user.id')
                        OR kv.value.int_value != 0, toString(kv.value.int_value),
                    kv.key IN ('gua.gpu.memory.shared') OR kv.value.bool_value, toString(kv.value.bool_value),
                    kv.value.double_value != 0, toString(kv.value.double_value),
                    ''
                ),
                resource.attributes
            )
        ),
        'Map(LowCardinality(String), String)'
    ) AS ResourceAttributes,
    scoped.scope.name AS ScopeName,
    ResourceAttributes['service.name'] AS ServiceName,
    metric.name AS MetricName,
    CAST(
        (
            point.attributes.key,
            arrayMap(
                kv -> multiIf(
                    kv.value.string_value != '', kv.value.string_value,
                    kv.key IN ('gua.gpu.index', 'process.pid', 'process.user.id', 'gua.allocation.user.id')
                        OR kv.value.int_value != 0, toString(kv.value.int_value),
                    kv.key IN ('gua.gpu.memory.shared') OR kv.value.bool_value, toString(kv.value.bool_value),
                    ''
                ),
                point.attributes
            )
        ),
        'Map(LowCardinality(String), String)'
    ) AS Attributes,
    fromUnixTimestamp64Nano(toInt64(point.start_time_unix_nano), 'UTC') AS StartTimeUnix,
    fromUnixTimestamp64Nano(toInt64(point.time_unix_nano), 'UTC') AS TimeUnix,
    point.as_double + point.as_int AS Value,
    point.flags AS Flags
FROM gua.otlp_requests AS request
COMMENT 'Gauge points of spooled requests into their landing table'
;
-- One row is one sum point of a request. protobuf reads an absent value and a zero alike, so the
-- attributes known to be integers or booleans have their own rule.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.otlp_requests_to_sum $ON_CLUSTER TO gua.otel_metrics_sum $DEFINER
AS
WITH
    arrayJoin(scope_metrics) AS scoped,
    arrayJoin(scoped.metrics) AS metric,
    arrayJoin(metric.sum.data_points) AS point
SELECT
    CAST(
        (
            resource.attributes.key,
            arrayMap(
                kv -> multiIf(
                    kv.value.string_value != '', kv.value.string_value,
                    kv.key IN ('gua.gpu.index', 'process.pid', 'process.user.id', 'gua.allocation.user.id')
                        OR kv.value.int_value != 0, toString(kv.value.int_value),
                    kv.key IN ('gua.gpu.memory.shared') OR kv.value.bool_value, toString(kv.value.bool_value),
                    kv.value.double_value != 0, toString(kv.value.double_value),
                    ''
                ),
                resource.attributes
            )
        ),
        'Map(LowCardinality(String), String)'
    ) AS ResourceAttributes,
    scoped.scope.name AS ScopeName,
    ResourceAttributes['service.name'] AS ServiceName,
    metric.name AS MetricName,
    CAST(
        (
            point.attributes.key,
            arrayMap(
                kv -> multiIf(
                    kv.value.string_value != '', kv.value.string_value,
                    kv.key IN ('gua.gpu.index', 'process.pid', 'process.user.id', 'gua.allocation.user.id')
                        OR kv.value.int_value != 0, toString(kv.value.int_value),
                    kv.key IN ('gua.gpu.memory.shared') OR kv.value.bool_value, toString(kv.value.bool_value),
                    ''
                ),
                point.attributes
            )
        ),
        'Map(LowCardinality(String), String)'
    ) AS Attributes,
    fromUnixTimestamp64Nano(toInt64(point.start_time_unix_nano), 'UTC') AS StartTimeUnix,
    fromUnixTimestamp64Nano(toInt64(point.time_unix_nano), 'UTC') AS TimeUnix,
    point.as_double + point.as_int AS Value,
    point.flags AS Flags,
    metric.sum.aggregation_temporality AS AggregationTemporality,
    metric.sum.is_monotonic AS IsMonotonic
FROM gua.otlp_requests AS request
COMMENT 'Sum points of spooled requests into their landing table'
