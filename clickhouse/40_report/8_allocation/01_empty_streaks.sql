-- One row is one streak in the window in which an allocation of a card was empty. A streak is ticks in a row: one with another known use
-- ends it; an unknown tick, or a gap of up to twice the longer of the two ticks beside it, does not. is_lower_bound: nothing tells what
-- was just before. next_used_ms: from its end to the next time that its owner was there, whatever lies between, or -1. as_of_ms is the
-- end of the card's newest tick in the window. priced is GPU time by price; what no price given counts for is left out. pieces are its
-- runs, and prices_of_pieces, where any are given, their prices.
CREATE OR REPLACE VIEW gua_report.empty_streaks $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    ${USES}
SELECT
    host,
    gpu,
    source,
    allocation_id,
    owner,
    start_ms,
    end_ms,
    as_of_ms,
    is_lower_bound,
    next_used_ms,
    arraySum(pieces.empty_ms) AS empty_ms,
    arraySum(pieces.gpu_us) AS gpu_us,
    pieces,
    if(empty(prices), [], arrayMap(run -> toUInt32(${PRICE_OF_RUN}), pieces)) AS prices_of_pieces,
    CAST(
        arrayMap(
            price -> (
                price,
                arraySum(arrayMap((its_price, piece_us) -> if(its_price = price, piece_us, 0), prices_of_pieces, pieces.gpu_us))
            ),
            arraySort(arrayDistinct(arrayFilter(price -> price > 0, prices_of_pieces)))
        ),
        'Array(Tuple(UInt32, UInt64))'
    ) AS priced
FROM
(
    SELECT
        toString(host) AS host,
        toString(gpu) AS gpu,
        toString(source) AS source,
        toString(allocation_id) AS allocation_id,
        toNullable(toString(newest_owner)) AS owner,
        runs[1].start_ms AS start_ms,
        runs[-1].end_ms AS end_ms,
        as_of_ms,
        toBool(start_ms - runs[1].known_until_ms > 2 * toInt64(runs[1].first_span_ms)) AS is_lower_bound,
        if(next_use_ms < 0, toInt64(-1), next_use_ms - end_ms) AS next_used_ms,
        CAST(
            arrayMap(run -> (run.observed_ms, run.gpu_us, run.start_ms, run.end_ms), runs),
            'Array(Tuple(empty_ms UInt64, gpu_us UInt64, start_ms Int64, end_ms Int64))'
        ) AS pieces
    FROM
    (
        SELECT
            host,
            gpu,
            source,
            allocation_id,
            max(card_as_of_ms) AS as_of_ms,
            argMax(owner, end_ms) AS newest_owner,
            arraySort(
                run -> (run.start_ms, run.end_ms),
                CAST(
                    groupArray((use_code, start_ms, end_ms, first_span_ms, last_span_ms, observed_ms, gpu_us, known_until_ms)),
                    'Array(Tuple(
                        use UInt8,
                        start_ms Int64,
                        end_ms Int64,
                        first_span_ms UInt32,
                        last_span_ms UInt32,
                        observed_ms UInt64,
                        gpu_us UInt64,
                        known_until_ms Int64
                    ))'
                )
            ) AS every_run,
            arraySplit(
                (run, before) -> run.use NOT IN (EMPTY, USE_UNKNOWN) OR ${GAP_BEFORE_RUN},
                every_run,
                arrayPushFront(arrayPopBack(every_run), every_run[1])
            ) AS segments,
            arrayMap(segment -> arrayFilter(run -> run.use = EMPTY, segment), segments) AS empty_runs,
            -- Of every segment, when its owner comes after it: a run in which the owner is there always begins one.
            arrayPushBack(
                arrayPopFront(
                    arrayReverseFill(
                        at_ms -> at_ms >= 0,
                        arrayMap(segment -> if(segment[1].use IN (USED, HELD), segment[1].start_ms, toInt64(-1)), segments)
                    )
                ),
                toInt64(-1)
            ) AS next_uses_ms
        FROM
        (
            SELECT
                *,
                max(end_ms) OVER (PARTITION BY host, gpu) AS card_as_of_ms,
                max(if(use_code = USE_UNKNOWN, toInt64(0), end_ms)) OVER (
                    PARTITION BY host, gpu
                    ORDER BY start_ms
                    RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ) AS known_until_ms
            FROM gua_report.use_runs(${WINDOW})
        )
        WHERE source != ''
        GROUP BY
            host,
            gpu,
            source,
            allocation_id
    )
    ARRAY JOIN
        empty_runs AS runs,
        next_uses_ms AS next_use_ms
    WHERE notEmpty(runs)
) AS streak
LEFT JOIN
(
    SELECT
        toString(host) AS card_host,
        toString(gpu) AS card_gpu,
        ${CARD_PRICES} AS prices
    FROM gua.card_info AS cards FINAL
    WHERE notEmpty({price_models:Array(String)})
        AND ${OF_HOSTS}
) AS card
    ON card.card_host = streak.host AND card.card_gpu = streak.gpu
ORDER BY
    host,
    gpu,
    start_ms,
    source,
    allocation_id
