-- One row is one host: its agent, and its first and last tick. last_seen ignores times more than a day ahead of the server's clock, as
-- such a host could never become silent.
CREATE OR REPLACE VIEW gua.hosts $ON_CLUSTER
$DEFINER
AS
SELECT
    named.host AS host,
    heard.newest_agent.host_id AS host_id,
    heard.newest_agent.instance AS instance,
    heard.agents AS agents,
    if(heard.host = '', described.labels['service.version'], heard.newest_tick.version) AS version,
    multiIf(
        heard.newest_tick.source != '', heard.newest_tick.source,
        described.labels['gua.source'] != '', described.labels['gua.source'],
        'agent'
    ) AS source,
    if(heard.newest_tick.interval_ms > 0, heard.newest_tick.interval_ms, described.interval_ms) AS interval_ms,
    arrayCount(
        card -> card.last > last_seen - toIntervalMillisecond(2 * toInt64(interval_ms) + 1)
            AND NOT has(described.partitioned, card.gpu),
        seen.every_card
    ) AS cards,
    multiIf(heard.host = '', seen.first_seen, seen.host = '', heard.first_seen, least(heard.first_seen, seen.first_seen)) AS first_seen,
    if(heard.host = '', seen.last_seen, heard.last_seen) AS last_seen,
    heard.last_received AS last_received,
    -heard.newest_day.lead_ms AS newest_delay_ms,
    heard.newest_day.least_delay_ms AS least_delay_ms,
    greatest(3 * toUInt64(interval_ms), 300000) AS silent_after_ms,
    CAST(
        source = 'agent'
        AND greatest(last_seen, ifNull(last_received, last_seen)) < now64(3, 'UTC') - toIntervalMillisecond(silent_after_ms),
        'Bool'
    ) AS is_silent,
    CAST(described.labels, 'Map(String, String)') AS labels
FROM
(
    SELECT toString(host) AS host
    FROM gua.card_seen
    UNION DISTINCT
    SELECT toString(host) AS host
    FROM gua.agents
) AS named
LEFT JOIN
(
    SELECT
        toString(host) AS host,
        uniqExact(instance, host_id) AS agents,
        min(agents.first_seen) AS first_seen,
        if(
            countIf(is_believed) > 0,
            maxIf(agents.last_seen, is_believed),
            max(agents.last_seen)
        ) AS last_seen,
        max(agents.last_received) AS last_received,
        argMax(agent, (is_believed, newest.ts)) AS newest_agent,
        argMax(newest, (is_believed, newest.ts)) AS newest_tick,
        -- Days in the future count only while the host still sends them: then its clock is ahead.
        argMaxIf(
            agent_day,
            newest.ts,
            is_believed OR ifNull(agents.last_received > now64(3, 'UTC') - toIntervalDay(1), false)
        ) AS newest_day
    FROM
    (
        SELECT
            *,
            day <= toDate(now('UTC')) + 1 AS is_believed,
            CAST((day, instance, host_id), 'Tuple(day Date, instance String, host_id String)') AS agent,
            CAST(
                (day, newest.lead_ms, agents.least_delay_ms),
                'Tuple(day Date, lead_ms Nullable(Int64), least_delay_ms Nullable(Int64))'
            ) AS agent_day
        FROM gua.agents FINAL
    ) AS agents
    GROUP BY host
) AS heard
    ON heard.host = named.host
LEFT JOIN
(
    SELECT
        toString(host) AS host,
        min(card_first) AS first_seen,
        max(card_last) AS last_seen,
        CAST(
            groupArray((toString(gpu), card_last)),
            'Array(Tuple(gpu String, last DateTime64(3, \'UTC\')))'
        ) AS every_card
    FROM
    (
        SELECT
            host,
            gpu,
            min(card_seen.first_seen) AS card_first,
            max(card_seen.last_seen) AS card_last
        FROM gua.card_seen
        GROUP BY ALL
    )
    GROUP BY host
) AS seen
    ON seen.host = named.host
LEFT JOIN
(
    SELECT
        toString(host) AS host,
        argMax(card_info.labels, ts) AS labels,
        argMax(ifNull(card_info.interval_ms, 0), ts) AS interval_ms,
        -- Partitioned GPUs are no cards.
        groupArrayIf(toString(gpu), ifNull(card_info.mig = 'parent', false)) AS partitioned
    FROM gua.card_info FINAL
    GROUP BY host
) AS described
    ON described.host = named.host
COMMENT 'All hosts in the store, and whether they are silent'
