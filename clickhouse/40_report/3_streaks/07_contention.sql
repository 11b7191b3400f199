-- One row is one host, and one (is_total) all of them: how long somebody in want of a card would have found one (free_ms), none, but
-- at least one idle-held (contended_ms), only active ones (busy_ms), or none in what is known while not all is (unknown_ms).
-- Whole cards only: who wants a card is not helped by a slice of one, so partitioned cards and their instances are left out.
CREATE OR REPLACE VIEW gua_report.contention $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    seen AS
    (
        SELECT
            toString(host) AS host,
            toString(gpu) AS gpu,
            greatest(toUnixTimestamp64Milli(first_seen), {since_ms:Int64}) AS expected_since_ms,
            if(
                ifNull(source IN ('import', 'simulator'), false),
                least(toUnixTimestamp64Milli(last_seen), {until_ms:Int64}),
                {until_ms:Int64}
            ) AS expected_until_ms
        FROM gua.cards
        WHERE ${OF_HOSTS}
            AND ifNull(mig = 'none', true)
            AND expected_since_ms < expected_until_ms
    ),
    changes AS
    (
        -- How the numbers of expected, active, idle-held and truly-idle cards change, and GPUs that are idle-held.
        SELECT
            host,
            change.at_ms AS at_ms,
            change.cards AS expected,
            toInt64(0) AS active,
            toInt64(0) AS held,
            toInt64(0) AS free,
            0. AS held_gpus
        FROM seen
        ARRAY JOIN CAST(
            [(expected_since_ms, 1), (expected_until_ms, -1)],
            'Array(Tuple(at_ms Int64, cards Int64))'
        ) AS change
        UNION ALL
        SELECT
            toString(runs.host) AS host,
            change.at_ms AS at_ms,
            toInt64(0) AS expected,
            change.cards * (state = ACTIVE) AS active,
            change.cards * (state = IDLE_HELD) AS held,
            change.cards * (state = TRULY_IDLE) AS free,
            if(state = IDLE_HELD, change.cards * gpu_us / 1000 / greatest(end_ms - start_ms, 1), 0) AS held_gpus
        FROM gua_report.card_runs(${WINDOW}) AS runs
        ARRAY JOIN CAST([(start_ms, 1), (end_ms, -1)], 'Array(Tuple(at_ms Int64, cards Int64))') AS change
        WHERE state IN (ACTIVE, IDLE_HELD, TRULY_IDLE) AND (toString(host), toString(gpu)) GLOBAL IN (SELECT host, gpu FROM seen)
    )
SELECT
    scope.is_total AS is_total,
    scope.host AS host,
    max(now_expected) AS cards,
    toInt64(sumIf(lasts_ms, now_free > 0)) AS free_ms,
    toInt64(sumIf(lasts_ms, now_free <= 0 AND now_active + now_held >= now_expected AND now_held > 0)) AS contended_ms,
    toInt64(sumIf(lasts_ms, now_free <= 0 AND now_active >= now_expected AND now_held <= 0)) AS busy_ms,
    toInt64(sumIf(lasts_ms, now_free <= 0 AND now_active + now_held < now_expected)) AS unknown_ms,
    toInt64(round(sumIf(
        lasts_ms * now_held_gpus,
        now_free <= 0 AND now_active + now_held >= now_expected AND now_held > 0
    ) * 1000)) AS contended_us
FROM
(
    SELECT
        scope,
        sum(expected) OVER so_far AS now_expected,
        sum(active) OVER so_far AS now_active,
        sum(held) OVER so_far AS now_held,
        sum(free) OVER so_far AS now_free,
        sum(held_gpus) OVER so_far AS now_held_gpus,
        leadInFrame(at_ms, 1, at_ms) OVER (PARTITION BY scope ORDER BY at_ms ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) - at_ms AS lasts_ms
    FROM
    (
        SELECT
            scope,
            at_ms,
            sum(expected) AS expected,
            sum(active) AS active,
            sum(held) AS held,
            sum(free) AS free,
            sum(held_gpus) AS held_gpus
        FROM changes
        ARRAY JOIN CAST([(false, host), (true, '')], 'Array(Tuple(is_total Bool, host String))') AS scope
        GROUP BY
            scope,
            at_ms
    )
    WINDOW so_far AS (PARTITION BY scope ORDER BY at_ms ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
)
WHERE now_expected > 0
GROUP BY scope
ORDER BY
    is_total DESC,
    host
