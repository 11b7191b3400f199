-- One row is one use of one card in one UTC hour, by owner and source of the allocation. The rows of a card and hour sum to its GPU time
-- with an allocation source. Changed hours come from ticks, as in gua.card_hours.
CREATE OR REPLACE VIEW gua.allocation_hours${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the card is in',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    hour DateTime('UTC') COMMENT 'Start of the hour',
    use String COMMENT 'used, held, used-by-others, empty, unallocated-use, free or unknown',
    source LowCardinality(String) COMMENT 'Source: slurm, kubernetes, gua or a name in a file; empty if unallocated or unknown',
    owner LowCardinality(Nullable(String)) COMMENT 'Owner of the allocation',
    is_shared Bool COMMENT 'Whether others had processes there besides the owner',
    gpu_time_ms UInt64 COMMENT 'GPU time [ms]'
)
$DEFINER
AS
WITH
    ${STATES},
    ${USES},
    ${CHANGED_HOURS},
    checked_ticks AS
    (
        SELECT
            ${WHOLE_CHECKED_TICK}
        FROM gua.card_states${LOCAL}
        WHERE ${IN_CHANGED_HOURS}
            AND allocation IS NOT NULL
            AND duration_ms > 0
    ),
    allocations AS
    (
        SELECT *
        FROM gua.allocation_ticks${LOCAL} FINAL
        WHERE ${IN_CHANGED_HOURS}
    ),
${USE_TICKS}
SELECT
    host,
    gpu,
    hour,
    USE_NAMES[use_code] AS use,
    source,
    owner,
    is_shared,
    intDiv(sum(us), 1000) AS gpu_time_ms
FROM
(
    SELECT
        host,
        gpu,
        hour,
        use_code,
        source,
        owner,
        is_shared,
        part_us AS us
    FROM use_ticks
    WHERE part_us > 0
    UNION ALL
    SELECT
        host,
        gpu,
        hour,
        use AS use_code,
        source,
        owner,
        is_shared,
        gpu_us AS us
    FROM gua.allocation_intervals${LOCAL} FINAL
    WHERE hour NOT IN (SELECT arrayJoin(changed)) AND gpu_us > 0
) AS every
GROUP BY
    host,
    gpu,
    hour,
    use_code,
    source,
    owner,
    is_shared
COMMENT 'Hours of each card by use of its allocation'
