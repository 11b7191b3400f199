-- One row is one agent (an installation on a machine) that gave its ticks a host's name while another agent did, on any
-- day of the window; of agents that came one after the other there is none. What an agent did not tell of itself does
-- not make it another one. At most 100 agents of a host and day are looked at.
CREATE OR REPLACE VIEW gua_report.claims $ON_CLUSTER
$DEFINER
AS
SELECT
    host,
    agent.1 AS instance,
    agent.2 AS host_id,
    min(agent.3) AS first_ms,
    max(agent.4) AS last_ms
FROM
(
    SELECT
        toString(host) AS host,
        groupArray(100)((
            instance,
            host_id,
            toUnixTimestamp64Milli(agents.first_seen),
            toUnixTimestamp64Milli(agents.last_seen)
        )) AS of_day,
        arrayFilter(
            one -> arrayExists(
                other -> one.3 < other.4 AND other.3 < one.4
                    AND (
                        (one.1 != other.1 AND one.1 != '' AND other.1 != '')
                        OR (one.2 != other.2 AND one.2 != '' AND other.2 != '')
                    ),
                of_day
            ),
            of_day
        ) AS disputing
    FROM gua.agents FINAL
    WHERE (empty({hosts:Array(String)}) OR has({hosts:Array(String)}, host))
        AND day >= toDate(fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC'))
        AND day <= toDate(fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC'))
        AND agents.last_seen > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
        AND agents.first_seen <= fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
        AND newest.4 != 'simulator'
    GROUP BY
        host,
        day
    HAVING length(of_day) > 1
)
ARRAY JOIN disputing AS agent
GROUP BY
    host,
    instance,
    host_id
ORDER BY
    host,
    first_ms,
    instance,
    host_id
