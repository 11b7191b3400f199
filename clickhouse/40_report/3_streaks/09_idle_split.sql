-- One row: the idle-held GPU time of all cards in the window by the streak it lies in, as gua_report.card_streaks tells of each card:
-- never used, low, of both what lies in long streaks, and what is of hours of which runs were not kept. A piece is a run or, of a
-- day that is read as such, what lies before its first and after its last end of a streak; is_new: it begins another streak.
CREATE OR REPLACE VIEW gua_report.idle_split $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    ${LONG_STREAK}
SELECT
    toUInt64(sum(card_never_used_us)) AS never_used_us,
    toUInt64(sum(card_never_used_long_us)) AS never_used_long_us,
    toUInt64(sum(card_low_us)) AS low_us,
    toUInt64(sum(card_low_long_us)) AS low_long_us,
    toUInt64(sum(card_unknown_us)) AS unknown_us
FROM
(
    SELECT
        arraySum(streak -> if(streak.is_used, 0, streak.held_us), streaks) AS card_never_used_us,
        arraySum(
            streak -> if(streak.is_used OR streak.held_ms < LONG_STREAK_MS, 0, streak.held_us),
            streaks
        ) AS card_never_used_long_us,
        arraySum(streak -> if(streak.is_used, streak.held_us, 0), streaks) AS card_low_us,
        arraySum(
            streak -> if(streak.is_used AND streak.held_ms >= LONG_STREAK_MS, streak.held_us, 0),
            streaks
        ) AS card_low_long_us,
        toUInt64(0) AS card_unknown_us
    FROM
    (
        SELECT
            arraySort(
                run -> (run.start_ms, run.end_ms),
                CAST(
                    groupArray((start_ms, end_ms, first_span_ms, last_span_ms, is_new, held_ms, held_us, is_used)),
                    'Array(Tuple(
                        start_ms Int64,
                        end_ms Int64,
                        first_span_ms UInt32,
                        last_span_ms UInt32,
                        is_new Bool,
                        held_ms UInt64,
                        held_us UInt64,
                        is_used Bool
                    ))'
                )
            ) AS runs,
            CAST(
                arrayMap(
                    pieces -> (arraySum(pieces.held_ms), arraySum(pieces.held_us), arrayMax(pieces.is_used)),
                    arraySplit(
                        (run, before) -> run.is_new OR ${GAP_BEFORE_RUN},
                        runs,
                        arrayResize(arrayPushFront(arrayPopBack(runs), runs[1]), length(runs))
                    )
                ),
                'Array(Tuple(held_ms UInt64, held_us UInt64, is_used Bool))'
            ) AS streaks
        FROM
        (
${STREAK_PIECES}
        )
        GROUP BY
            host,
            gpu
    )
    UNION ALL
${STREAKS_BETWEEN}
)
