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
    expected AS
    (
        SELECT
            toString(host) AS host,
            toString(gpu) AS gpu,
            ifNull(mig = 'parent', false) AS is_partitioned,
            greatest(toUnixTimestamp64Milli(first_seen), {since_ms:Int64}) AS since_ms,
            if(
                ifNull(source IN ('import', 'simulator'), false),
                least(toUnixTimestamp64Milli(last_seen), {until_ms:Int64}),
                {until_ms:Int64}
            ) AS until_ms,
            ${CARD_PRICES} AS prices
        FROM gua.cards AS cards
        WHERE ${OF_HOSTS}
            AND NOT ifNull(mig = 'instance', false)
            AND since_ms < until_ms
    ),
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
SELECT
    toBool(scope = 0) AS is_total,
    if(is_total, '', any(of_host)) AS host,
    max(now_expected) AS cards,
    toInt64(sumIf(lasts_ms, found = 'free')) AS free_ms,
    toInt64(sumIf(lasts_ms, found = 'contended')) AS contended_ms,
    toInt64(sumIf(lasts_ms, found = 'busy')) AS busy_ms,
    toInt64(sumIf(lasts_ms, found = 'unknown')) AS unknown_ms,
    toInt64(round(sumIf(lasts_ms * now_held_gpus, found = 'contended') * 1000)) AS contended_us,
    toInt64(round(sumIf(lasts_ms * greatest(now_promised_gpus, 0), found = 'contended') * 1000)) AS contended_promised_us,
    -- Of a card that is idle-held from one moment to another, the contended time until the one less that until the other.
    CAST(
        arrayMap(
            (price, gpu_ms) -> (price, greatest(round(gpu_ms * 1000), 0)),
            (sumMap(priced.1, arrayMap(gpus -> -gpus * contended_before_ms, priced.2)) AS by_price).1,
            by_price.2
        ),
        'Array(Tuple(UInt32, UInt64))'
    ) AS contended_priced
FROM
(
    SELECT
        scope,
        of_host,
        now_expected,
        now_held_gpus,
        now_promised_gpus,
        lasts_ms,
        priced,
        found,
        sum(if(found = 'contended', lasts_ms, 0)) OVER (
            PARTITION BY scope ORDER BY at_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS contended_before_ms
    FROM
    (
        SELECT
            *,
            multiIf(
                now_expected <= 0, 'nothing',
                now_free > 0, 'free',
                now_active + now_held + now_promised < now_expected, 'unknown',
                now_held + now_promised > 0, 'contended',
                'busy'
            ) AS found
        FROM
        (
            SELECT
                scope,
                of_host,
                at_ms,
                priced,
                sum(expected) OVER so_far AS now_expected,
                sum(active) OVER so_far AS now_active,
                sum(held) OVER so_far AS now_held,
                sum(free) OVER so_far AS now_free,
                sum(promised) OVER so_far AS now_promised,
                sum(held_gpus) OVER so_far AS now_held_gpus,
                sum(promised_gpus) OVER so_far AS now_promised_gpus,
                leadInFrame(at_ms, 1, at_ms) OVER (
                    PARTITION BY scope ORDER BY at_ms ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING
                ) - at_ms AS lasts_ms
            FROM
            (
                SELECT
                    scope,
                    any(host) AS of_host,
                    at_ms,
                    sumIf(cards, state = NOT_KEPT) AS expected,
                    sumIf(cards, state = ACTIVE) AS active,
                    sumIf(cards, state = IDLE_HELD) AS held,
                    sumIf(cards, state = TRULY_IDLE) AS free,
                    sumIf(cards, state = PROMISED) AS promised,
                    sumIf(gpus, state = IDLE_HELD) AS held_gpus,
                    sumIf(gpus, state = PROMISED) AS promised_gpus,
                    sumMapIf([price], [gpus], state = IDLE_HELD AND price > 0) AS priced
                FROM changes
                ARRAY JOIN [cityHash64(host), toUInt64(0)] AS scope
                GROUP BY
                    scope,
                    at_ms
                -- None where an hour ends and the next goes on alike.
                HAVING expected != 0
                    OR active != 0
                    OR held != 0
                    OR free != 0
                    OR promised != 0
                    OR held_gpus != 0
                    OR promised_gpus != 0
                    OR notEmpty(priced.1)
            )
            WINDOW so_far AS (PARTITION BY scope ORDER BY at_ms ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
        )
    )
)
GROUP BY scope
HAVING cards > 0
ORDER BY
    is_total DESC,
    host
