-- One row is one card: its description, and its first and last tick.
CREATE OR REPLACE VIEW gua.cards $ON_CLUSTER
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
