-- One row is one tick of an agent with the agent's own metrics. It reads the landing tables: it covers their retention, and is empty in
-- an embedded store. It runs as its definer, as readers have no rights on those tables.
CREATE OR REPLACE VIEW gua.agent_ticks${LOCAL} $ON_CLUSTER
(
    host String COMMENT 'Host the agent is on',
    instance String COMMENT 'service.instance.id of the agent: one installation; empty if unknown',
    version String COMMENT 'service.version of the agent; empty if unknown',
    ts DateTime64(9, 'UTC') COMMENT 'Time of the tick',
    tick_duration_seconds Nullable(Float64) COMMENT 'Time to read the tick [s]',
    tick_lateness_seconds Nullable(Float64) COMMENT 'Delay of the tick after its scheduled time [s]',
    spool_ticks Nullable(Float64) COMMENT 'Ticks in the spool, waiting for delivery [{tick}]',
    spool_bytes Nullable(Float64) COMMENT 'Size of the spool on disk [By]',
    dropped_ticks Nullable(Float64) COMMENT 'Ticks dropped because the spool was full, oldest first [{tick}]',
    errors Nullable(Float64) COMMENT 'Failed calls since the agent started; NULL: none [{error}]'
)
$DEFINER
AS
SELECT
    host,
    instance,
    max(sender_version) AS version,
    ts,
    maxOrNullIf(value, metric = 'gua.agent.tick.duration') AS tick_duration_seconds,
    maxOrNullIf(value, metric = 'gua.agent.tick.lateness') AS tick_lateness_seconds,
    maxOrNullIf(value, metric = 'gua.agent.spool.ticks') AS spool_ticks,
    maxOrNullIf(value, metric = 'gua.agent.spool.size') AS spool_bytes,
    maxOrNullIf(value, metric = 'gua.agent.dropped') AS dropped_ticks,
    sumOrNullIf(value, metric = 'gua.agent.errors') AS errors
FROM
(
    -- A point that was sent twice counts once.
    SELECT
        ResourceAttributes['host.name'] AS host,
        ResourceAttributes['service.instance.id'] AS instance,
        any(ResourceAttributes['service.version']) AS sender_version,
        TimeUnix AS ts,
        MetricName AS metric,
        max(Value) AS value
    FROM
    (
        SELECT
            ResourceAttributes,
            ScopeName,
            MetricName,
            Attributes,
            TimeUnix,
            Value,
            Flags
        FROM gua.otel_metrics_gauge${LOCAL}
        WHERE MetricName IN (
            'gua.agent.tick.duration',
            'gua.agent.tick.lateness',
            'gua.agent.spool.ticks',
            'gua.agent.spool.size'
        )
        UNION ALL
        SELECT
            ResourceAttributes,
            ScopeName,
            MetricName,
            Attributes,
            TimeUnix,
            Value,
            Flags
        FROM gua.otel_metrics_sum${LOCAL}
        WHERE MetricName IN ('gua.agent.dropped', 'gua.agent.errors')
    )
    WHERE ${OUR_SCOPE}
        AND ResourceAttributes['host.name'] != ''
        AND isFinite(Value)
        AND bitAnd(Flags, 1) = 0
    GROUP BY
        host,
        instance,
        ts,
        metric,
        toString(Attributes)
)
GROUP BY ALL
COMMENT 'Metrics of agents; limited to the retention of raw points'
