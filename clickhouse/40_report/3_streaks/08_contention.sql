-- One row is one host, and one (is_total) all of them: how long somebody in want of a card would have found one (free_ms), none, but
-- at least one idle-held or promised to somebody who is not there (contended_ms), only active ones (busy_ms), or none in what is known
-- while not all is (unknown_ms). A truly-idle card is free only for who may have it: where allocation is looked at, that is nobody while
-- it is promised, and nobody knows while it is not known whether it is.
-- Whole cards only: who wants a card is not helped by a slice of one, so instances are left out, and a GPU while it is partitioned.
-- contended_priced: idle-held GPU time of the contended time (contended_us) by price; what no price given counts for is left out.
-- contended_promised_us: GPU time of the contended time in which cards were truly-idle and promised.
CREATE OR REPLACE VIEW gua_report.contention $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    ${USES},
    -- Truly-idle and promised; truly-idle, and it is not known whether it is promised.
    5 AS PROMISED,
    6 AS MAYBE_PROMISED,
${CONTENTION_CARDS},
    observed AS
    (
        SELECT
            toString(host) AS host,
            toString(gpu) AS gpu,
            -- When it became whole, an even number, or partitioned, an odd one: twice the time.
            arraySort(groupArray(start_ms * 2 + is_partitioned)) AS starts,
            arrayFilter((one, before) -> one % 2 != before % 2, starts, arrayPushFront(arrayPopBack(starts), starts[1] + 1)) AS modes,
            -- What rounding leaves between the ticks of a run is not observed either, and stands at its end.
            groupArrayArrayIf(
                [
                    (start_ms, state, 1, gpu_us / 1000 / observed_ms, end_ms),
                    (start_ms + toInt64(observed_ms), state, -1, -gpu_us / 1000 / observed_ms, end_ms)
                ],
                NOT is_partitioned AND state != UNKNOWN
            ) AS changes
        FROM ${INTERVALS_OF_CARDS}
        GROUP BY
            host,
            gpu
    ),
    promised AS
    (
        -- From when to when somebody was promised a card, or nobody knows whether anybody was, as one change more and one less each.
        SELECT
            toString(host) AS host,
            toString(gpu) AS gpu,
            groupArrayArray([
                (start_ms, if(source = '', MAYBE_PROMISED, PROMISED), 1, 0., toInt64(0)),
                (end_ms, if(source = '', MAYBE_PROMISED, PROMISED), -1, 0., toInt64(0))
            ]) AS changes
        FROM ${INTERVALS_OF_ALLOCATIONS}
        WHERE source != ''
            OR use = USE_UNKNOWN
        GROUP BY
            host,
            gpu
    ),
    changes AS
    (
        -- How many cards are in a state from now on, or fewer, and whole GPUs of them; of state NOT_KEPT, how many are expected.
        SELECT
            host,
            change.at_ms AS at_ms,
            change.state AS state,
            change.cards AS cards,
            change.gpus AS gpus,
            arrayLast(number -> {price_starts:Array(Int64)}[number] < change.end_ms, prices) AS price
        FROM
        (
            SELECT
                expected.host AS host,
                expected.prices AS prices,
                -- A mode lasts until the next tick; of a card of which there is none, the newest counts.
                if(empty(observed.modes), [toInt64(expected.is_partitioned)], observed.modes) AS modes,
                CAST(
                    arrayConcat(
                        arrayMap(
                            (mode, number) -> (
                                if(number = 1, expected.since_ms, intDiv(mode, 2)),
                                NOT_KEPT,
                                multiIf(mode % 2 = 0, 1, number = 1, 0, -1),
                                0.,
                                toInt64(0)
                            ),
                            modes,
                            arrayEnumerate(modes)
                        ),
                        [(expected.until_ms, NOT_KEPT, modes[-1] % 2 - 1, 0., toInt64(0))],
                        arrayFilter(change -> empty(promised.changes) OR change.2 != TRULY_IDLE, observed.changes)
                    ),
                    'Array(Tuple(at_ms Int64, state UInt8, cards Int64, gpus Float64, end_ms Int64))'
                ) AS others,
                -- What changes whether the card is truly-idle or promised, in the order of time; at one moment one change more comes first.
                arraySort(
                    change -> (change.at_ms, -change.cards),
                    CAST(
                        if(
                            empty(promised.changes),
                            [],
                            arrayConcat(arrayFilter(change -> change.2 = TRULY_IDLE, observed.changes), promised.changes)
                        ),
                        'Array(Tuple(at_ms Int64, state UInt8, cards Int64, gpus Float64, end_ms Int64))'
                    )
                ) AS mixed,
                arrayCumSum(change -> if(change.state = TRULY_IDLE, change.cards, 0), mixed) AS idle,
                arrayCumSum(change -> if(change.state = TRULY_IDLE, change.gpus, 0), mixed) AS idle_gpus,
                arrayCumSum(change -> if(change.state = PROMISED, change.cards, 0), mixed) AS promises,
                arrayCumSum(change -> if(change.state = MAYBE_PROMISED, change.cards, 0), mixed) AS maybes,
                -- From each of them to the next it is in one of these, or (0) in none of them.
                arrayMap(
                    (is_idle, is_promised, may_be) -> toUInt8(
                        multiIf(is_idle <= 0, 0, is_promised > 0, PROMISED, may_be > 0, MAYBE_PROMISED, TRULY_IDLE)
                    ),
                    idle,
                    promises,
                    maybes
                ) AS found_states,
                arrayConcat(
                    others,
                    arrayFilter(
                        change -> change.state > 0,
                        CAST(
                            arrayFlatten(arrayMap(
                                (change, found, gpus, before, before_gpus) -> [
                                    (change.at_ms, before, -1, -before_gpus, change.end_ms),
                                    (change.at_ms, found, 1, gpus, change.end_ms)
                                ],
                                mixed,
                                found_states,
                                idle_gpus,
                                arrayResize(arrayPushFront(arrayPopBack(found_states), toUInt8(0)), length(mixed)),
                                arrayResize(arrayPushFront(arrayPopBack(idle_gpus), 0.), length(mixed))
                            )),
                            'Array(Tuple(at_ms Int64, state UInt8, cards Int64, gpus Float64, end_ms Int64))'
                        )
                    )
                ) AS changes
            FROM expected
            LEFT JOIN observed ON observed.host = expected.host AND observed.gpu = expected.gpu
            LEFT JOIN promised ON promised.host = expected.host AND promised.gpu = expected.gpu
        )
        ARRAY JOIN changes AS change
    )
${CONTENTION}
