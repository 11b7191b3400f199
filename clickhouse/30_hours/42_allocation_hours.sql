-- One row is one use of one card in one UTC hour, by the owner and source of the allocation. The rows of a card and hour sum to its
-- GPU time in which allocation was looked at. As in gua.card_hours, changed hours come from ticks.
CREATE OR REPLACE VIEW gua.allocation_hours${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the card is in',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    hour DateTime('UTC') COMMENT 'Start of the hour',
    use String COMMENT 'used, held, used-by-others, empty, unallocated-use, free or unknown',
    source LowCardinality(String)
        COMMENT 'Who promised it: slurm, kubernetes, gua, or what a file says; empty if nobody, or if that is not known',
    owner LowCardinality(Nullable(String)) COMMENT 'User that the allocation belongs to',
    is_shared Bool COMMENT 'Whether others were there besides the owner',
    gpu_time_ms UInt64 COMMENT 'GPU time [ms]'
)
$DEFINER
AS
WITH
    ${STATES},
    ${USES},
    -- Asked for once: an hour that is counted meanwhile would be read twice, or not at all.
    (SELECT groupArray(hour) FROM gua_report.changed_hours) AS changed,
    looked_at AS
    (
        SELECT
            host,
            gpu,
            ts,
            toUnixTimestamp64Milli(ts) AS end_ms,
            end_ms - duration_ms AS start_ms,
            start_ms AS inside_since_ms,
            end_ms AS inside_until_ms,
            toUInt64(gpu_time_ms) * 1000 AS gpu_us,
            gpu_time_ms,
            unallocated_gpu_time_ms,
            ${STATE_CODE} AS state_code
        FROM gua.card_states${LOCAL}
        WHERE ${TICK_HOUR} IN (SELECT intDiv(toUnixTimestamp(arrayJoin(changed)), 3600))
            AND allocation IS NOT NULL
            AND duration_ms > 0
    ),
    allocations AS
    (
        SELECT *
        FROM gua.allocation_ticks${LOCAL} FINAL
        WHERE ${TICK_HOUR} IN (SELECT intDiv(toUnixTimestamp(arrayJoin(changed)), 3600))
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
    sum(ms) AS gpu_time_ms
FROM
(
    -- Changed hours first, as in gua.card_hours.
    SELECT
        host,
        gpu,
        hour,
        use_code,
        source,
        owner,
        is_shared,
        intDiv(part_us, 1000) AS ms
    FROM use_ticks
    WHERE part_us > 0
    UNION ALL
    SELECT
        host,
        use_gpu AS gpu,
        hour,
        use_code,
        use_source AS source,
        use_owner AS owner,
        use_is_shared AS is_shared,
        use_gpu_time_ms AS ms
    FROM gua.host_hours${LOCAL} FINAL
    ARRAY JOIN
        use_runs.gpu AS use_gpu,
        use_runs.use AS use_code,
        use_runs.source AS use_source,
        use_runs.owner AS use_owner,
        use_runs.is_shared AS use_is_shared,
        use_runs.gpu_time_ms AS use_gpu_time_ms
    WHERE hour NOT IN (SELECT arrayJoin(changed))
) AS every
GROUP BY
    host,
    gpu,
    hour,
    use_code,
    source,
    owner,
    is_shared
COMMENT 'Hours of each card by what became of what was promised'
