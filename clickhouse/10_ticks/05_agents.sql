-- One row is one agent on one UTC day of its ticks. Delays are stored by day, because an old delay does not describe the clock of today.
-- Days also separate agents that used one host name at different times.
CREATE TABLE IF NOT EXISTS gua.agents${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'host.name in the agent''s ticks',
    instance String COMMENT 'service.instance.id of the agent: one installation; empty if unknown',
    host_id String COMMENT 'host.id of the agent''s machine; empty if unknown',
    day Date COMMENT 'UTC day of the ticks',
    first_seen SimpleAggregateFunction(min, DateTime64(3, 'UTC')) COMMENT 'Oldest tick of the day',
    last_seen SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'Newest tick of the day',
    last_received SimpleAggregateFunction(max, Nullable(DateTime64(3, 'UTC')))
        COMMENT 'Last reception of a tick of the day, by server clock; NULL in an embedded store',
    least_delay_ms SimpleAggregateFunction(min, Nullable(Int64))
        COMMENT 'Least delay of a tick of the day; below 0: the host''s clock is ahead of the server''s [ms]',
    newest SimpleAggregateFunction(
        max,
        Tuple(ts DateTime64(3, 'UTC'), lead_ms Nullable(Int64), version String, source String, interval_ms UInt32)
    )
        COMMENT 'Newest tick; lead_ms is its time less its first reception, above 0 if its clock is ahead [ms]'
)
ENGINE = ${REPLICATED}AggregatingMergeTree
ORDER BY (host, instance, host_id, day)
$TABLE_SETTINGS
COMMENT 'First and last tick of each agent and day; read with FINAL'
