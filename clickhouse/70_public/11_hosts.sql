-- One row is one host: its agent, and its first and last tick.
CREATE OR REPLACE VIEW gua_public.hosts $ON_CLUSTER
(
    host String COMMENT 'Name of the host',
    team Nullable(String) COMMENT 'Label team of the host; NULL if it has none',
    labels Map(String, String) COMMENT 'All labels of the host (OTEL_RESOURCE_ATTRIBUTES)',
    cards UInt64 COMMENT 'Whole GPUs and MIG instances in its newest ticks [cards]',
    source String COMMENT 'Origin of its ticks: agent, import, program, simulator',
    version String COMMENT 'Version of gua at its newest tick; empty if unknown',
    agents UInt64 COMMENT 'Agents that used this host name; 0 without agents'' own points [agents]',
    interval_seconds Float64 COMMENT 'Nominal time from one tick to the next; 0 if unknown [s]',
    first_seen DateTime64(3, 'UTC') COMMENT 'Start of its oldest tick [UTC]',
    last_seen DateTime64(3, 'UTC') COMMENT 'Newest tick [UTC]',
    last_received Nullable(DateTime64(3, 'UTC')) COMMENT 'Last reception of a tick, by server clock; NULL in an embedded store [UTC]',
    delay_seconds Nullable(Float64) COMMENT 'Delay of its newest tick; below 0: its clock is ahead; NULL in an embedded store [s]',
    least_delay_seconds Nullable(Float64)
        COMMENT 'Least delay on its newest UTC day; high if its clock is behind; NULL in an embedded store [s]',
    silent_after_seconds Float64 COMMENT 'It is silent after this time without a tick: 3 intervals, at least 5 minutes [s]',
    is_silent Bool COMMENT 'Whether its agent is silent, by server clock; false for imports and simulations'
)
$DEFINER
AS
SELECT
    facts.host AS host,
    nullIf(facts.labels['team'], '') AS team,
    facts.labels AS labels,
    facts.cards AS cards,
    facts.source AS source,
    facts.version AS version,
    facts.agents AS agents,
    facts.interval_ms / 1000 AS interval_seconds,
    facts.first_seen AS first_seen,
    facts.last_seen AS last_seen,
    facts.last_received AS last_received,
    facts.newest_delay_ms / 1000 AS delay_seconds,
    facts.least_delay_ms / 1000 AS least_delay_seconds,
    facts.silent_after_ms / 1000 AS silent_after_seconds,
    facts.is_silent AS is_silent
FROM gua.hosts AS facts
COMMENT 'All hosts in the store, and whether they are silent'
