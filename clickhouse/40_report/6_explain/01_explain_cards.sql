-- One row is one card of a host as gua explain names it; times are Unix time in ms.
CREATE OR REPLACE VIEW gua_report.explain_cards $ON_CLUSTER
$DEFINER
AS
SELECT
    toString(host) AS host,
    toString(gpu) AS gpu,
    gpu_index,
    name,
    mig,
    parent,
    driver_version,
    pci,
    ifNull(source, 'agent') AS source,
    interval_ms,
    toUnixTimestamp64Milli(first_seen) AS first_ms,
    toUnixTimestamp64Milli(last_seen) AS last_ms
FROM gua.cards
WHERE ${OF_HOSTS}
ORDER BY
    host,
    gpu_index,
    mig,
    gpu
