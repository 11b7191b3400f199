-- One row is one tick of an agent: every one has a point of its own duration, also where no card can be read.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.gauge_to_agents $ON_CLUSTER TO gua.agents${LOCAL} $DEFINER
AS
SELECT
    ResourceAttributes['host.name'] AS host,
    ResourceAttributes['service.instance.id'] AS instance,
    ResourceAttributes['host.id'] AS host_id,
    toDate(TimeUnix, 'UTC') AS day,
    toDateTime64(TimeUnix, 3, 'UTC') AS first_seen,
    first_seen AS last_seen,
    CAST($RECEIVED, 'Nullable(DateTime64(3, \'UTC\'))') AS last_received,
    dateDiff('millisecond', first_seen, last_received) AS least_delay_ms,
    (
        first_seen,
        -least_delay_ms,
        ResourceAttributes['service.version'],
        ResourceAttributes['gua.source'],
        ifNull(accurateCastOrNull(round(toFloat64OrNull(ResourceAttributes['gua.sample.interval']) * 1000), 'UInt32'), 0)
    ) AS newest
FROM gua.otel_metrics_gauge${LOCAL}
WHERE MetricName = 'gua.agent.tick.duration'
    AND ${OUR_SCOPE}
    AND ResourceAttributes['host.name'] != ''
    AND isFinite(Value)
    AND bitAnd(Flags, 1) = 0
    AND ${POSSIBLE_TIME}
COMMENT 'Ticks of agents into agents'
