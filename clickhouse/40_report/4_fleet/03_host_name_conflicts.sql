-- One row is one agent (installation and machine) that used a host name together with another agent, on a day of the window. Agents that
-- followed each other are no conflict. An unknown id does not make a different agent. At most 100 agents of a host and day are compared.
CREATE OR REPLACE VIEW gua_report.host_name_conflicts $ON_CLUSTER
$DEFINER
AS
SELECT
    host,
    agent.instance AS instance,
    agent.host_id AS host_id,
    min(agent.first_ms) AS first_ms,
    max(agent.last_ms) AS last_ms
FROM
(
    SELECT
        toString(host) AS host,
        CAST(
            groupArray(100)((
                instance,
                host_id,
                toUnixTimestamp64Milli(agents.first_seen),
                toUnixTimestamp64Milli(agents.last_seen)
            )),
            'Array(Tuple(instance String, host_id String, first_ms Int64, last_ms Int64))'
        ) AS of_day,
        arrayFilter(
            each -> arrayExists(
                other -> each.first_ms < other.last_ms AND other.first_ms < each.last_ms
                    AND (
                        (each.instance != other.instance AND each.instance != '' AND other.instance != '')
                        OR (each.host_id != other.host_id AND each.host_id != '' AND other.host_id != '')
                    ),
                of_day
            ),
            of_day
        ) AS disputing
    FROM gua.agents FINAL
    WHERE ${OF_HOSTS}
        AND day >= toDate(fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC'))
        AND day <= toDate(fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC'))
        AND agents.last_seen > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
        AND agents.first_seen <= fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
        AND newest.source != 'simulator'
    GROUP BY
        host,
        day
    HAVING length(of_day) > 1
)
ARRAY JOIN disputing AS agent
GROUP BY ALL
ORDER BY
    host,
    first_ms,
    instance,
    host_id
