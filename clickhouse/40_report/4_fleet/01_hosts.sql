-- One row is one host and the resource attributes that its newest tick came with.
CREATE OR REPLACE VIEW gua_report.labels $ON_CLUSTER
$DEFINER
AS
SELECT
    host,
    labels
FROM gua.hosts
ORDER BY host
;
-- One row is one host as gua status --all lists it; times are Unix time in ms, now_ms is the server's own.
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
