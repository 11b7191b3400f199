-- One row is one host with the resource attributes of its newest tick.
CREATE OR REPLACE VIEW gua_report.labels $ON_CLUSTER
$DEFINER
AS
SELECT
    host,
    labels
FROM gua.hosts
ORDER BY host
;
-- One row is one host in gua status --all. Times are Unix time [ms]; now_ms is the server's clock.
CREATE OR REPLACE VIEW gua_report.host_status $ON_CLUSTER
$DEFINER
AS
SELECT
    host,
    host_id,
    instance,
    agents,
    version,
    source,
    interval_ms,
    cards,
    toUnixTimestamp64Milli(first_seen) AS first_ms,
    toUnixTimestamp64Milli(last_seen) AS last_ms,
    toUnixTimestamp64Milli(last_received) AS received_ms,
    newest_delay_ms,
    least_delay_ms,
    silent_after_ms,
    is_silent,
    labels,
    toUnixTimestamp64Milli(now64(3, 'UTC')) AS now_ms
FROM gua.hosts
ORDER BY host
;
-- One row is one host with an agent that is silent at until_ms, or whose clock was wrong on its newest day in the window. ahead_ms: the
-- newest tick arrived more than 2 s before its own time. behind_ms: the least delay of the day is 60 s or more, the host is not silent,
-- and the day has 10 intervals. Fewer ticks may just have waited in the spool.
CREATE OR REPLACE VIEW gua_report.fleet $ON_CLUSTER
$DEFINER
AS
SELECT
    hosts.host AS host,
    toUnixTimestamp64Milli(hosts.last_seen) AS last_ms,
    toUnixTimestamp64Milli(greatest(hosts.last_seen, ifNull(hosts.last_received, hosts.last_seen)))
        < {until_ms:Int64} - toInt64(hosts.silent_after_ms) AS is_silent,
    if(days.newest_day.lead_ms > 2000, days.newest_day.lead_ms, NULL) AS ahead_ms,
    if(
        NOT is_silent AND days.newest_day.least_delay_ms >= 60000 AND days.newest_day.lasts_ms >= 10 * hosts.interval_ms,
        days.newest_day.least_delay_ms,
        NULL
    ) AS behind_ms
FROM
(
    SELECT *
    FROM gua.hosts
    WHERE ${OF_HOSTS}
        AND source = 'agent'
) AS hosts
LEFT JOIN
(
    SELECT
        toString(host) AS host,
        CAST(
            argMax(
                (newest.lead_ms, least_delay_ms, dateDiff('millisecond', agents.first_seen, agents.last_seen)),
                newest.ts
            ),
            'Tuple(lead_ms Nullable(Int64), least_delay_ms Nullable(Int64), lasts_ms Int64)'
        ) AS newest_day
    FROM gua.agents FINAL
    WHERE ${OF_HOSTS}
        AND day >= toDate(fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC'))
        AND (
            day <= toDate(fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC'))
            -- A clock that is days ahead.
            OR ifNull(
                toUnixTimestamp64Milli(agents.last_received) > {until_ms:Int64} - 86400000
                AND toUnixTimestamp64Milli(agents.last_received) <= {until_ms:Int64} + 86400000,
                false
            )
        )
    GROUP BY host
) AS days
    ON days.host = hosts.host
WHERE is_silent OR ahead_ms IS NOT NULL OR behind_ms IS NOT NULL
ORDER BY host
