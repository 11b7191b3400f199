-- One row is one allocation of a card at its newest tick, with its use and the start of that. An allocation that ended within the tick is
-- left out. An unknown tick, or a gap up to twice the longer tick beside it, does not end a use. Only the UTC days around the tick are
-- read; use_since_is_lower_bound marks a use that may have begun earlier.
CREATE OR REPLACE VIEW gua_report.current_allocations $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    ${USES},
    checked_ticks AS
    (
        SELECT
            ${WHOLE_CHECKED_TICK}
        FROM gua.card_states
        WHERE ${OF_HOSTS}
            AND ${IN_NEWEST_DAYS}
            AND allocation IS NOT NULL
            AND duration_ms > 0
    ),
    allocations AS
    (
        SELECT *
        FROM gua.allocation_ticks FINAL
        WHERE ${OF_HOSTS}
            AND ${IN_NEWEST_DAYS}
    ),
${USE_TICKS}
SELECT
    toString(uses.host) AS host,
    toString(uses.gpu) AS gpu,
    toString(uses.source) AS source,
    toString(uses.allocation_id) AS allocation_id,
    toNullable(toString(named.owner)) AS owner,
    toNullable(toString(named.kind)) AS kind,
    toNullable(toString(named.job_name)) AS job_name,
    toUnixTimestamp64Milli(named.since) AS since_ms,
    toUnixTimestamp64Milli(named.until) AS until_ms,
    toUnixTimestamp64Milli(uses.last) AS last_ms,
    USE_NAMES[newest_use] AS use,
    uses.use_since_ms AS use_since_ms,
    uses.use_since_is_lower_bound AS use_since_is_lower_bound
FROM
(
    SELECT
        host,
        gpu,
        source,
        allocation_id,
        max(ts) AS last,
        -- Arrays of numbers, each sorted by time, as in gua.current_cards.
        groupArray(part_until_ms) AS unsorted_ends_ms,
        arrayReverseSort(unsorted_ends_ms) AS ends_ms,
        arrayReverseSort((one, by) -> by, groupArray(part_since_ms), unsorted_ends_ms) AS starts_ms,
        arrayReverseSort((one, by) -> by, groupArray(use_code), unsorted_ends_ms) AS codes,
        arrayReverseSort((one, by) -> by, groupArray(known_until_ms), unsorted_ends_ms) AS known_untils_ms,
        codes[1] AS newest_use,
        -- From the newest tick back, the first of another use or before a gap.
        arrayFirstIndex(
            (code, start, end, later_start, later_end) -> code != newest_use AND code != USE_UNKNOWN
                OR later_start - end > 2 * greatest(end - start, later_end - later_start),
            codes,
            starts_ms,
            ends_ms,
            arrayPushFront(arrayPopBack(starts_ms), ends_ms[1]),
            arrayPushFront(arrayPopBack(ends_ms), ends_ms[1])
        ) AS other,
        arraySlice(codes, 1, if(other = 0, length(codes), toUInt64(other - 1))) AS streak_codes,
        arrayLastIndex(code -> code = newest_use, streak_codes) AS oldest,
        starts_ms[oldest] AS use_since_ms,
        toBool(use_since_ms - known_untils_ms[oldest] > 2 * (ends_ms[oldest] - use_since_ms)) AS use_since_is_lower_bound
    FROM
    (
        SELECT
            *,
            max(if(use_code = USE_UNKNOWN, toInt64(0), part_until_ms)) OVER (
                PARTITION BY host, gpu
                ORDER BY part_since_ms
                RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS known_until_ms
        FROM use_ticks
    )
    WHERE source != ''
    GROUP BY
        host,
        gpu,
        source,
        allocation_id
) AS uses
INNER JOIN
(
    SELECT
        host,
        gpu,
        ts,
        source,
        allocation_id,
        owner,
        kind,
        job_name,
        since,
        until
    FROM gua.allocation_ticks FINAL
    WHERE (host, gpu, ts) GLOBAL IN
        (
            SELECT
                host,
                gpu,
                max(last_seen)
            FROM gua.card_seen
            WHERE ${OF_HOSTS}
            GROUP BY ALL
        )
        AND ifNull(until > ts, true)
) AS named
    ON named.host = uses.host
    AND named.gpu = uses.gpu
    AND named.ts = uses.last
    AND named.source = uses.source
    AND named.allocation_id = uses.allocation_id
ORDER BY
    host,
    gpu,
    source,
    allocation_id
