-- One row is GPU time in the window (is_total), or one part of a card's newest tick. Totals are by owner, source, use, is_shared and
-- price number (0: unpriced). An empty source is unallocated or unknown time. One query serves both, as planning takes longer than
-- execution. Totals sum to the observed time with an allocation source, to the microsecond. is_shared: others were there besides the
-- owner. Parts: use_since_ms is the start of the use, and in_use_ms its observed time. An unknown tick, or a gap up to twice the longer
-- tick beside it, does not end a use. An allocation that ended within the tick, or begins in it after the window, is not listed. For an
-- unallocated part, allocated_until_ms is the end of the card's last allocation in the window (0: none), and allocated_to its owner.
CREATE OR REPLACE VIEW gua_report.allocations $ON_CLUSTER
$DEFINER
AS
WITH
    ${USES},
    parts AS
    (
        SELECT
            *,
            -- A tick has up to two parts without an allocation, with different uses.
            if(source = '', use, 0) AS unallocated_part,
            max(end_ms) OVER card AS as_of_ms,
            -- An allocation that begins after the window has no time in it.
            if(source = '' OR observed_ms = 0, toInt64(0), end_ms) AS allocation_end_ms,
            max(allocation_end_ms) OVER card AS card_allocated_until_ms,
            -- As a tuple, because argMax would skip an unknown owner.
            argMax(tuple(toNullable(toString(owner))), allocation_end_ms) OVER card AS card_last_owner,
            max(if(use = USE_UNKNOWN, toInt64(0), end_ms)) OVER (
                PARTITION BY host, gpu
                ORDER BY start_ms
                RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS known_until_ms
        FROM ${INTERVALS_OF_ALLOCATIONS}
        WINDOW card AS (PARTITION BY host, gpu)
    ),
    -- From the newest interval back: ended counts intervals of another use, and gaps.
    streaks AS
    (
        SELECT
            *,
            sum(
                use != newest_use AND use != USE_UNKNOWN
                OR later_start_ms - end_ms > 2 * toInt64(greatest(last_span_ms, later_first_span_ms))
            ) OVER (
                PARTITION BY host, gpu, source, allocation_id, unallocated_part
                ORDER BY start_ms DESC
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS ended
        FROM
        (
            SELECT
                *,
                any(use) OVER backwards AS newest_use,
                lagInFrame(start_ms, 1, end_ms) OVER backwards AS later_start_ms,
                lagInFrame(first_span_ms, 1, first_span_ms) OVER backwards AS later_first_span_ms
            FROM parts
            WINDOW backwards AS (
                PARTITION BY host, gpu, source, allocation_id, unallocated_part
                ORDER BY start_ms DESC
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            )
        )
    )
SELECT *
FROM
(
    SELECT
        true AS is_total,
        '' AS host,
        '' AS gpu,
        toString(parts.source) AS source,
        '' AS allocation_id,
        toNullable(toString(parts.owner)) AS owner,
        USE_NAMES[parts.use] AS use,
        parts.is_shared AS is_shared,
        toUInt32(arrayLast(number -> {price_starts:Array(Int64)}[number] < parts.end_ms, priced.prices)) AS price,
        sum(parts.gpu_us) AS gpu_us,
        toInt64(0) AS last_ms,
        toInt64(0) AS use_since_ms,
        toUInt64(0) AS in_use_ms,
        false AS use_since_is_lower_bound,
        toInt64(0) AS allocated_until_ms,
        CAST(NULL, 'Nullable(String)') AS allocated_to
    FROM parts
    LEFT JOIN ${PRICED_CARDS} AS priced
        ON priced.card_host = parts.host AND priced.card_gpu = parts.gpu
    GROUP BY
        source,
        owner,
        use,
        is_shared,
        price
    HAVING gpu_us > 0
    UNION ALL
    SELECT
        false AS is_total,
        toString(streaks.host) AS host,
        toString(streaks.gpu) AS gpu,
        toString(streaks.source) AS source,
        toString(streaks.allocation_id) AS allocation_id,
        toNullable(toString(argMax(tuple(streaks.owner), end_ms).1)) AS owner,
        USE_NAMES[any(newest_use)] AS use,
        false AS is_shared,
        toUInt32(0) AS price,
        sum(streaks.gpu_us) AS gpu_us,
        any(as_of_ms) AS last_ms,
        minIf(start_ms, is_current) AS use_since_ms,
        sumIf(observed_ms, is_current) AS in_use_ms,
        toBool(
            use_since_ms - argMinIf(known_until_ms, start_ms, is_current) > 2 * toInt64(argMinIf(first_span_ms, start_ms, is_current))
        ) AS use_since_is_lower_bound,
        if(streaks.source = '', any(card_allocated_until_ms), toInt64(0)) AS allocated_until_ms,
        if(streaks.source = '', any(card_last_owner).1, NULL) AS allocated_to
    FROM
    (
        SELECT
            *,
            ended = 0 AND streaks.use = newest_use AS is_current
        FROM streaks
    ) AS streaks
    GROUP BY
        streaks.host,
        streaks.gpu,
        streaks.source,
        streaks.allocation_id,
        streaks.unallocated_part
    HAVING max(end_ms) = last_ms AND in_use_ms > 0
)
;
-- One row is one allocation of a card with its kind, job name and time, from ticks in the last hours of the window. A join in
-- gua_report.allocations would take longer. A tick that begins after the window may give a name but no end.
CREATE OR REPLACE VIEW gua_report.allocation_names $ON_CLUSTER
$DEFINER
AS
WITH
    toUnixTimestamp64Milli(ts) - toInt64(ifNull(duration_ms, 0)) < {until_ms:Int64} AS is_inside
SELECT
    toString(host) AS host,
    toString(gpu) AS gpu,
    toString(source) AS source,
    toString(allocation_id) AS allocation_id,
    toNullable(toString(argMaxIf(kind, (is_inside, ts), kind IS NOT NULL))) AS kind,
    toNullable(toString(argMaxIf(job_name, (is_inside, ts), job_name IS NOT NULL))) AS job_name,
    toUnixTimestamp64Milli(argMaxIf(since, (is_inside, ts), since IS NOT NULL)) AS since_ms,
    toUnixTimestamp64Milli(argMaxIf(until, ts, is_inside AND until IS NOT NULL)) AS until_ms
FROM gua.allocation_ticks
-- Each tick has all names, so the newest ticks suffice.
WHERE ts > fromUnixTimestamp64Milli(
        greatest({since_ms:Int64}, least({until_ms:Int64}, toUnixTimestamp64Milli(now64(3, 'UTC'))) - 10800000),
        'UTC'
    )
    AND ts <= fromUnixTimestamp64Milli({until_ms:Int64} + 3600000, 'UTC')
    AND ${OF_HOSTS}
GROUP BY ALL
ORDER BY
    host,
    gpu,
    source,
    allocation_id
