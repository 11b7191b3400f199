-- One row is one card: its description, and its first and last tick.
CREATE OR REPLACE VIEW gua.cards $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the card is in',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    gpu_index Nullable(UInt16) COMMENT 'NVML index of the card; may change with a boot',
    name Nullable(String) COMMENT 'Device name',
    model Nullable(String) COMMENT 'Model of the whole GPU',
    driver_version Nullable(String) COMMENT 'Version of the driver',
    pci Nullable(String) COMMENT 'PCI bus id',
    mig Nullable(String) COMMENT 'none, parent (partitioned) or instance',
    parent Nullable(String) COMMENT 'UUID of the GPU of a MIG instance',
    source Nullable(String) COMMENT 'Origin of its ticks: agent, import, simulator',
    interval_ms Nullable(UInt32) COMMENT 'Nominal sampling interval [ms]',
    first_seen DateTime64(3, 'UTC') COMMENT 'Start of its first tick',
    last_seen DateTime64(3, 'UTC') COMMENT 'Newest tick',
    longest_ms UInt64 COMMENT 'Longest tick [ms]',
    share Float64 COMMENT 'Share of a whole GPU at the newest tick: 1, or slices / all slices'
)
$DEFINER
AS
SELECT
    seen.host AS host,
    seen.gpu AS gpu,
    info.gpu_index AS gpu_index,
    info.name AS name,
    info.model AS model,
    info.driver_version AS driver_version,
    info.pci AS pci,
    info.mig AS mig,
    info.parent AS parent,
    info.source AS source,
    info.interval_ms AS interval_ms,
    seen.first_seen AS first_seen,
    seen.last_seen AS last_seen,
    seen.longest_ms AS longest_ms,
    if(seen.newest_share.ts > toDateTime64(0, 3, 'UTC'), seen.newest_share.share, 1.) AS share
FROM
(
    SELECT
        host,
        gpu,
        min(first_seen) AS first_seen,
        max(last_seen) AS last_seen,
        max(longest_ms) AS longest_ms,
        max(newest_share) AS newest_share
    FROM gua.card_seen
    GROUP BY ALL
) AS seen
LEFT JOIN
(
    SELECT *
    FROM gua.card_info FINAL
) AS info
    ON info.host = seen.host AND info.gpu = seen.gpu
COMMENT 'All cards in the store'
