-- One row is one allocation source of one host in the window: how long it was readable and unreadable, and its newest tick.
-- last_failed_ms is the newest failed tick (NULL: none), reason its error.
CREATE OR REPLACE VIEW gua_report.allocation_sources $ON_CLUSTER
$DEFINER
AS
SELECT
    toString(host) AS host,
    toString(source) AS source,
    sum(hours.ok_ms) AS ok_ms,
    sum(hours.failed_ms) AS failed_ms,
    toNullable(toString(argMaxIf(hours.reason, hours.last_failed_ms, hours.last_failed_ms > 0))) AS reason,
    max(hours.last_ms) AS last_ms,
    nullIf(max(hours.last_failed_ms), 0) AS last_failed_ms
FROM ${HOURS_OF_SOURCES} AS hours
GROUP BY ALL
ORDER BY
    host,
    source
