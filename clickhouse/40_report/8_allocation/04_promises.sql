-- One row is what became of GPU time in the window (is_total): of one owner by one source, or of nobody (empty source), by use, in the
-- time of one of the prices given, by its number, or of none (0); or it is a part of a card's newest tick in the window by its use: an
-- allocation's, or (empty source) what nobody was promised, or nobody knows. Both in one question, as making its plan takes longer than
-- answering it. Totals sum to the observed time in which allocation was looked at, to the microsecond. is_shared: others were there
-- besides the owner. use_since_ms: since when it is what it is; an unknown tick, or a gap of up to twice the longer of the two ticks
-- beside it, does not end a use. in_use_ms: how much of that was observed. An allocation that ended within the tick is none any more.
CREATE OR REPLACE VIEW gua_report.promises $ON_CLUSTER
$DEFINER
AS
WITH
    ${USES}
SELECT
    CAST(part.host = '', 'Bool') AS is_total,
    part.host AS host,
    part.gpu AS gpu,
    part.source AS source,
    part.allocation_id AS allocation_id,
    if(is_total, part.owner, part.newest_owner) AS owner,
    USE_NAMES[if(is_total, part.use_code, part.newest_use)] AS use,
    part.is_shared AS is_shared,
    part.price AS price,
    part.gpu_us AS gpu_us,
    named.kind AS kind,
    named.job_name AS job_name,
    named.since_ms AS since_ms,
    named.until_ms AS until_ms,
    if(is_total, toInt64(0), part.as_of_ms) AS last_ms,
    if(is_total, toInt64(0), part.use_since_ms) AS use_since_ms,
    if(is_total, toUInt64(0), part.in_use_ms) AS in_use_ms,
    part.is_lower_bound AND NOT is_total AS use_since_is_lower_bound
FROM
(
    -- In queries of their own: where a name stands for all that it is made of, making the plan takes several times as long.
    SELECT
        *,
        streak[-1].start_ms AS use_since_ms,
        arraySum(streak.observed_ms) AS in_use_ms,
        toBool(use_since_ms - streak[-1].known_until_ms > 2 * toInt64(streak[-1].first_span_ms)) AS is_lower_bound
    FROM
    (
        SELECT
            *,
            arrayFilter(run -> run.use = newest_use, arraySlice(runs, 1, if(other = 0, length(runs), toUInt64(other - 1)))) AS streak
        FROM
        (
            SELECT
                *,
                runs[1].use AS newest_use,
                -- The first, backwards, that no longer belongs: of another use, or before a gap.
                arrayFirstIndex(
                    (run, later) -> run.use != newest_use AND run.use != USE_UNKNOWN
                        OR later.start_ms - run.end_ms > 2 * toInt64(greatest(run.last_span_ms, later.first_span_ms)),
                    runs,
                    arrayPushFront(arrayPopBack(runs), runs[1])
                ) AS other
            FROM
            (
                SELECT
                    *,
                    -- The newest first; of totals none is wanted, and there is none without one.
                    arrayReverseSort(run -> run.start_ms, if(host = '', arrayResize(unsorted, 1), unsorted)) AS runs
                FROM
                (
                    SELECT
                        host,
                        gpu,
                        source,
                        allocation_id,
                        owner,
                        use_code,
                        is_shared,
                        price,
                        sum(us) AS gpu_us,
                        argMax(of_owner, end_ms) AS newest_owner,
                        max(card_as_of_ms) AS as_of_ms,
                        CAST(
                            groupArray((code, start_ms, end_ms, first_span_ms, last_span_ms, observed_ms, known_until_ms)),
                            'Array(Tuple(
                                use UInt8,
                                start_ms Int64,
                                end_ms Int64,
                                first_span_ms UInt32,
                                last_span_ms UInt32,
                                observed_ms UInt64,
                                known_until_ms Int64
                            ))'
                        ) AS unsorted
                    FROM
                    (
                        SELECT
                            toString(runs.host) AS host,
                            toString(runs.gpu) AS gpu,
                            toString(runs.source) AS source,
                            toString(runs.allocation_id) AS allocation_id,
                            toNullable(toString(runs.owner)) AS owner,
                            owner AS of_owner,
                            runs.use_code AS use_code,
                            use_code AS code,
                            -- Of nobody a tick has two parts at most, in one place.
                            if(source = '', code, 0) AS nobodys_use,
                            runs.is_shared AS is_shared,
                            toUInt32(arrayLast(number -> {price_starts:Array(Int64)}[number] < runs.end_ms, priced.prices)) AS price,
                            runs.gpu_us AS us,
                            runs.start_ms AS start_ms,
                            runs.end_ms AS end_ms,
                            runs.first_span_ms AS first_span_ms,
                            runs.last_span_ms AS last_span_ms,
                            runs.observed_ms AS observed_ms,
                            max(end_ms) OVER (PARTITION BY host, gpu) AS card_as_of_ms,
                            max(if(code = USE_UNKNOWN, toInt64(0), end_ms)) OVER (
                                PARTITION BY host, gpu
                                ORDER BY start_ms
                                RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                            ) AS known_until_ms
                        FROM gua_report.use_runs(${WINDOW}) AS runs
                        LEFT JOIN
                        (
                            SELECT
                                host,
                                gpu,
                                ${CARD_PRICES} AS prices
                            FROM gua.card_info AS cards FINAL
                            WHERE notEmpty({price_models:Array(String)})
                                AND ${OF_HOSTS}
                        ) AS priced
                            ON priced.host = runs.host AND priced.gpu = runs.gpu
                    )
                    GROUP BY GROUPING SETS (
                        (source, owner, use_code, is_shared, price),
                        (host, gpu, source, allocation_id, nobodys_use)
                    )
                    HAVING host = '' AND gpu_us > 0
                        OR host != '' AND max(end_ms) = as_of_ms
                )
            )
        )
    )
) AS part
LEFT JOIN
(
    SELECT
        toString(host) AS host,
        toString(gpu) AS gpu,
        toString(source) AS source,
        toString(allocation_id) AS allocation_id,
        toNullable(toString(argMaxIf(kind, ts, kind IS NOT NULL))) AS kind,
        toNullable(toString(argMaxIf(job_name, ts, job_name IS NOT NULL))) AS job_name,
        toUnixTimestamp64Milli(argMaxIf(since, ts, since IS NOT NULL)) AS since_ms,
        toUnixTimestamp64Milli(argMaxIf(until, ts, until IS NOT NULL)) AS until_ms
    FROM gua.allocation_ticks
    -- What an allocation is called is told at each tick: the newest ones are enough.
    WHERE ts > fromUnixTimestamp64Milli(
            greatest({since_ms:Int64}, least({until_ms:Int64}, toUnixTimestamp64Milli(now64(3, 'UTC'))) - 10800000),
            'UTC'
        )
        AND ts <= fromUnixTimestamp64Milli({until_ms:Int64} + 3600000, 'UTC')
        AND ${OF_HOSTS}
    GROUP BY
        host,
        gpu,
        source,
        allocation_id
) AS named
    ON named.host = part.host
    AND named.gpu = part.gpu
    AND named.source = part.source
    AND named.allocation_id = part.allocation_id
ORDER BY
    is_total DESC,
    host,
    gpu,
    source,
    allocation_id,
    use,
    owner,
    is_shared,
    price
