-- One row is one host, and (is_total) all hosts: time by whether a card was available. free_ms: one was. contended_ms: none was, and at
-- least one was idle-held, or truly-idle and allocated. busy_ms: all were active. unknown_ms: none of the known cards was, and not all
-- are known. A truly-idle card is free unless it is allocated, and unknown if its allocation is unknown. Only whole GPUs count, without
-- MIG instances and GPUs while partitioned. contended_us and contended_priced are idle-held GPU time in contention, in total and by price
-- number, without unpriced time. contended_allocated_us is GPU time of truly-idle, allocated cards in contention.
CREATE OR REPLACE VIEW gua_report.contention $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    ${USES},
    0 AS EXPECTED_TIME,
    -- States of truly-idle cards: allocated, or of unknown allocation.
    5 AS ALLOCATED,
    6 AS MAYBE_ALLOCATED,
    expected AS
    (
        SELECT
            toString(host) AS host,
            toString(gpu) AS gpu,
            ifNull(mig = 'parent', false) AS is_partitioned,
            greatest(toUnixTimestamp64Milli(first_seen), {since_ms:Int64}) AS since_ms,
            if(
                ifNull(source IN ('import', 'program', 'simulator'), false),
                least(toUnixTimestamp64Milli(last_seen), {until_ms:Int64}),
                {until_ms:Int64}
            ) AS until_ms,
            ${CARD_PRICES} AS prices
        FROM gua.cards AS cards
        WHERE ${OF_HOSTS}
            AND NOT ifNull(mig = 'instance', false)
            AND since_ms < until_ms
    ),
    -- Starts (1) and ends (-1) at a moment of a card: expected time, intervals in a state, allocations.
    events AS
    (
        SELECT
            toString(host) AS host,
            toString(gpu) AS gpu,
            event.1 AS at_ms,
            state,
            event.2 AS count,
            count * gpu_us / 1000 / observed_ms AS gpus,
            end_ms,
            -- While an interval begins: 0 for a whole GPU, 1 for a partitioned one.
            if(count > 0, toNullable(toUInt8(is_partitioned)), NULL) AS mode
        FROM ${INTERVALS_OF_CARDS}
        -- Observed time ends before end_ms by the rounding between ticks. Overlapping ticks observe more than elapses: then end_ms
        -- counts.
        ARRAY JOIN [(start_ms, 1), (least(end_ms, start_ms + toInt64(observed_ms)), -1)] AS event
        UNION ALL
        SELECT
            toString(host),
            toString(gpu),
            event.1,
            if(source = '', MAYBE_ALLOCATED, ALLOCATED),
            event.2,
            0,
            0,
            NULL
        FROM ${INTERVALS_OF_ALLOCATIONS}
        ARRAY JOIN [(start_ms, 1), (end_ms, -1)] AS event
        WHERE source != ''
            OR use = USE_UNKNOWN
        UNION ALL
        SELECT
            host,
            gpu,
            event.1,
            EXPECTED_TIME,
            event.2,
            0,
            0,
            NULL
        FROM expected
        ARRAY JOIN [(since_ms, 1), (until_ms, -1)] AS event
    ),
    -- Each card from one moment to the next. Overlapping ticks are one card's time, in the busiest of their states.
    cards AS
    (
        SELECT
            host,
            gpu,
            at_ms,
            -- A mode lasts until the next tick. Before the first tick its mode counts, without ticks that of the newest.
            sum(expecting) OVER so_far > 0
                AND ifNull(anyLast(mode) OVER so_far, ifNull(any(mode) OVER card, expected.is_partitioned)) = 0 AS is_expected,
            sum(idle) OVER so_far AS now_idle,
            sum(held) OVER so_far AS now_held,
            toUInt8(
                multiIf(
                    NOT is_expected, 0,
                    sum(active) OVER so_far > 0, ACTIVE,
                    now_held > 0, IDLE_HELD,
                    now_idle <= 0, 0,
                    sum(allocated) OVER so_far > 0, ALLOCATED,
                    sum(maybe_allocated) OVER so_far > 0, MAYBE_ALLOCATED,
                    TRULY_IDLE
                )
            ) AS state,
            multiIf(
                state = IDLE_HELD, sum(held_gpus) OVER so_far / now_held,
                state = ALLOCATED, sum(idle_gpus) OVER so_far / now_idle,
                0
            ) AS gpus,
            arrayLast(number -> {price_starts:Array(Int64)}[number] < max(held_until_ms) OVER so_far, expected.prices) AS price
        FROM
        (
            SELECT
                host,
                gpu,
                at_ms,
                sumIf(count, state = EXPECTED_TIME) AS expecting,
                sumIf(count, state = ACTIVE) AS active,
                sumIf(count, state = IDLE_HELD) AS held,
                sumIf(count, state = TRULY_IDLE) AS idle,
                sumIf(count, state = ALLOCATED) AS allocated,
                sumIf(count, state = MAYBE_ALLOCATED) AS maybe_allocated,
                sumIf(gpus, state = IDLE_HELD) AS held_gpus,
                sumIf(gpus, state = TRULY_IDLE) AS idle_gpus,
                maxIf(end_ms, state = IDLE_HELD) AS held_until_ms,
                min(mode) AS mode
            FROM events
            GROUP BY ALL
        ) AS moments
        INNER JOIN expected ON expected.host = moments.host AND expected.gpu = moments.gpu
        WINDOW
            card AS (PARTITION BY host, gpu ORDER BY at_ms ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING),
            so_far AS (PARTITION BY host, gpu ORDER BY at_ms ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
    )
SELECT
    toBool(scope = 0) AS is_total,
    if(is_total, '', any(of_host)) AS host,
    max(now_expected) AS cards,
    toInt64(sumIf(lasts_ms, verdict = 'free')) AS free_ms,
    toInt64(sumIf(lasts_ms, verdict = 'contended')) AS contended_ms,
    toInt64(sumIf(lasts_ms, verdict = 'busy')) AS busy_ms,
    toInt64(sumIf(lasts_ms, verdict = 'unknown')) AS unknown_ms,
    toInt64(round(sumIf(lasts_ms * now_held_gpus, verdict = 'contended') * 1000)) AS contended_us,
    toInt64(round(sumIf(lasts_ms * greatest(now_allocated_gpus, 0), verdict = 'contended') * 1000)) AS contended_allocated_us,
    -- Idle-held GPU time in contention: contended time up to its end less contended time up to its start.
    CAST(
        arrayFilter(
            one -> one.1 > 0,
            arrayMap(
                (price, gpu_ms) -> (price, greatest(round(gpu_ms * 1000), 0)),
                (sumMap(priced.1, arrayMap(gpus -> -gpus * contended_before_ms, priced.2)) AS by_price).1,
                by_price.2
            )
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
        now_allocated_gpus,
        lasts_ms,
        priced,
        verdict,
        sum(if(verdict = 'contended', lasts_ms, 0)) OVER (
            PARTITION BY scope ORDER BY at_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS contended_before_ms
    FROM
    (
        SELECT
            *,
            multiIf(
                now_expected <= 0, 'nothing',
                now_free > 0, 'free',
                now_active + now_held + now_allocated < now_expected, 'unknown',
                now_held + now_allocated > 0, 'contended',
                'busy'
            ) AS verdict
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
                sum(allocated) OVER so_far AS now_allocated,
                sum(held_gpus) OVER so_far AS now_held_gpus,
                sum(allocated_gpus) OVER so_far AS now_allocated_gpus,
                leadInFrame(at_ms, 1, at_ms) OVER (
                    PARTITION BY scope ORDER BY at_ms ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING
                ) - at_ms AS lasts_ms
            FROM
            (
                SELECT
                    scope,
                    any(host) AS of_host,
                    at_ms,
                    sum(toInt64(is_expected) - was_expected) AS expected,
                    sum(toInt64(state = ACTIVE) - (previous.1 = ACTIVE)) AS active,
                    sum(toInt64(state = IDLE_HELD) - (previous.1 = IDLE_HELD)) AS held,
                    sum(toInt64(state = TRULY_IDLE) - (previous.1 = TRULY_IDLE)) AS free,
                    sum(toInt64(state = ALLOCATED) - (previous.1 = ALLOCATED)) AS allocated,
                    sum(if(state = IDLE_HELD, gpus, 0) - if(previous.1 = IDLE_HELD, previous.2, 0)) AS held_gpus,
                    sum(if(state = ALLOCATED, gpus, 0) - if(previous.1 = ALLOCATED, previous.2, 0)) AS allocated_gpus,
                    sumMap(
                        [if(state = IDLE_HELD, price, 0), if(previous.1 = IDLE_HELD, previous.3, 0)],
                        [gpus, -previous.2]
                    ) AS priced
                FROM
                (
                    SELECT
                        *,
                        lagInFrame(is_expected, 1, false) OVER before AS was_expected,
                        lagInFrame((state, gpus, price), 1, (0, 0, 0)) OVER before AS previous
                    FROM cards
                    WINDOW before AS (PARTITION BY host, gpu ORDER BY at_ms ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
                )
                ARRAY JOIN [cityHash64(host), toUInt64(0)] AS scope
                -- At the end of an hour the state often does not change.
                WHERE (is_expected, state, gpus, price) != (was_expected, previous.1, previous.2, previous.3)
                GROUP BY
                    scope,
                    at_ms
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
