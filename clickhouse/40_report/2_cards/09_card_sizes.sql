-- One row is one card with ticks in the window, and its memory in these: the least in total, the most that the driver reserved, whether
-- it was ever a MIG instance or a partitioned GPU, and whether it used the host's memory. whole_bytes is the memory of the GPU that an
-- instance is a part of: its instances and unallocated slices together, in the tick with the largest sum; NULL of other cards, and where
-- no tick has the memory of unallocated slices.
CREATE OR REPLACE VIEW gua_report.card_sizes $ON_CLUSTER
$DEFINER
AS
SELECT
    toString(sizes.host) AS host,
    toString(sizes.gpu) AS gpu,
    cards.gpu_index AS gpu_index,
    cards.model AS model,
    sizes.limit_bytes AS limit_bytes,
    sizes.reserved_bytes AS reserved_bytes,
    sizes.is_cut AS is_cut,
    sizes.is_instance AS is_instance,
    -- It stands in the row of the GPU.
    if(is_instance, max(sizes.whole_bytes) OVER (PARTITION BY sizes.host, cards.whole), NULL) AS whole_bytes,
    sizes.is_shared AS is_shared
FROM
(
    SELECT
        host,
        gpu,
        min(hours.limit_bytes) AS limit_bytes,
        max(hours.reserved_bytes) AS reserved_bytes,
        toUInt8(max(hours.is_partitioned)) AS is_cut,
        toUInt8(max(hours.is_instance)) AS is_instance,
        toUInt8(max(hours.is_shared)) AS is_shared,
        max(hours.whole_bytes) AS whole_bytes
    FROM ${HOURS_OF_CARDS} AS hours
    GROUP BY ALL
) AS sizes
LEFT JOIN
(
    SELECT
        host,
        gpu,
        gpu_index,
        ifNull(model, name) AS model,
        toString(ifNull(parent, gpu)) AS whole
    FROM gua.card_info FINAL
    WHERE ${OF_HOSTS}
) AS cards
    ON cards.host = sizes.host AND cards.gpu = sizes.gpu
