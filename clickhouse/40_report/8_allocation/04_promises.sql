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
-- In queries of their own: where a name stands for all that it is made of, making the plan takes several times as long.
SELECT
    toBool(key.host = '') AS is_total,
    key.host AS host,
    key.gpu AS gpu,
    key.source AS source,
    key.allocation_id AS allocation_id,
    if(is_total, key.owner, newest_owner) AS owner,
    USE_NAMES[if(is_total, key.use, newest_use)] AS use,
    key.is_shared AS is_shared,
    key.price AS price,
    gpu_us,
    if(is_total, toInt64(0), as_of_ms) AS last_ms,
    if(is_total, toInt64(0), streak[-1].start_ms) AS use_since_ms,
    arraySum(streak.observed_ms) AS in_use_ms,
    toBool(
        NOT is_total
        AND streak[-1].start_ms - streak[-1].known_until_ms > 2 * toInt64(streak[-1].first_span_ms)
    ) AS use_since_is_lower_bound
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
                arraySlice(arrayPushFront(runs, runs[1]), 1, length(runs))
            ) AS other
        FROM
        (
            SELECT
                key,
                sum(us) AS gpu_us,
                argMax(of_owner, run.end_ms) AS newest_owner,
                max(card_as_of_ms) AS as_of_ms,
                -- The newest first; of totals none is wanted.
                arrayReverseSort(run -> run.start_ms, groupArrayIf(run, key.host != '')) AS runs
            FROM
            (
                SELECT
                    -- Each run belongs to a total and to a part of its card. Of nobody a tick has two parts at most, in one place. One
                    -- key, as in GROUPING SETS each column is compared with each, and with it all of the query that it comes from.
                    arrayJoin(CAST(
                        [
                            (
                                '',
                                '',
                                toString(runs.source),
                                '',
                                toNullable(toString(runs.owner)),
                                runs.use,
                                runs.is_shared,
                                toUInt32(arrayLast(number -> {price_starts:Array(Int64)}[number] < runs.end_ms, priced.prices))
                            ),
                            (
                                toString(runs.host),
                                toString(runs.gpu),
                                toString(runs.source),
                                toString(runs.allocation_id),
                                NULL,
                                if(runs.source = '', runs.use, 0),
                                false,
                                0
                            )
                        ],
                        'Array(Tuple(
                            host String,
                            gpu String,
                            source String,
                            allocation_id String,
                            owner Nullable(String),
                            use UInt8,
                            is_shared Bool,
                            price UInt32
                        ))'
                    )) AS key,
                    runs.gpu_us AS us,
                    toNullable(toString(runs.owner)) AS of_owner,
                    max(runs.end_ms) OVER (PARTITION BY runs.host, runs.gpu) AS card_as_of_ms,
                    CAST(
                        (
                            runs.use,
                            runs.start_ms,
                            runs.end_ms,
                            runs.first_span_ms,
                            runs.last_span_ms,
                            runs.observed_ms,
                            max(if(runs.use = USE_UNKNOWN, toInt64(0), runs.end_ms)) OVER (
                                PARTITION BY runs.host, runs.gpu
                                ORDER BY runs.start_ms
                                RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                            )
                        ),
                        'Tuple(
                            use UInt8,
                            start_ms Int64,
                            end_ms Int64,
                            first_span_ms UInt32,
                            last_span_ms UInt32,
                            observed_ms UInt64,
                            known_until_ms Int64
                        )'
                    ) AS run
                FROM ${INTERVALS_OF_ALLOCATIONS} AS runs
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
            GROUP BY key
            HAVING if(key.host = '', gpu_us > 0, max(run.end_ms) = as_of_ms)
        )
    )
)
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
