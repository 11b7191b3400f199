-- One row is one gauge point of a request.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.otlp_requests_to_gauge $ON_CLUSTER TO gua.otel_metrics_gauge $DEFINER
AS
WITH
    arrayJoin(scope_metrics) AS scoped,
    arrayJoin(scoped.metrics) AS metric,
    arrayJoin(metric.gauge.data_points) AS point
SELECT
${OTLP_POINT}
FROM gua.otlp_requests AS request
COMMENT 'Gauge points of spooled requests into their landing table'
;
-- One row is one sum point of a request.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.otlp_requests_to_sum $ON_CLUSTER TO gua.otel_metrics_sum $DEFINER
AS
WITH
    arrayJoin(scope_metrics) AS scoped,
    arrayJoin(scoped.metrics) AS metric,
    arrayJoin(metric.sum.data_points) AS point
SELECT
${OTLP_POINT},
    metric.sum.aggregation_temporality AS AggregationTemporality,
    metric.sum.is_monotonic AS IsMonotonic
FROM gua.otlp_requests AS request
COMMENT 'Sum points of spooled requests into their landing table'
