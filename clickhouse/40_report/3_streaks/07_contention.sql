-- One row is one host, and one (is_total) all of them: how long somebody in want of a card would have found one (free_ms), none, but
-- at least one idle-held (contended_ms), only active ones (busy_ms), or none in what is known while not all is (unknown_ms).
-- Whole cards only: who wants a card is not helped by a slice of one, so partitioned cards and their instances are left out.
CREATE OR REPLACE VIEW gua_report.contention $ON_CLUSTER
$DEFINER
AS
WITH
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
        WHERE (empty({hosts:Array(String)}) OR has({hosts:Array(String)}, host))
            AND ifNull(mig = 'none', true)
            AND expected_since_ms < expected_until_ms
    ),
    changes AS
    (
        -- How the numbers of expected, active, idle-held and truly-idle cards change, and GPUs that are idle-held.
        SELECT
            host,
            change.1 AS at_ms,
            change.2 AS expected,
            toInt64(0) AS active,
            toInt64(0) AS held,
            toInt64(0) AS free,
            0. AS held_gpus
        FROM seen
        ARRAY JOIN [(expected_since_ms, toInt64(1)), (expected_until_ms, toInt64(-1))] AS change
        UNION ALL
        SELECT
            toString(runs.host) AS host,
            change.1 AS at_ms,
            toInt64(0) AS expected,
            change.2 * (state = 1) AS active,
            change.2 * (state = 2) AS held,
            change.2 * (state = 3) AS free,
            if(state = 2, change.2 * gpu_us / 1000 / greatest(end_ms - start_ms, 1), 0) AS held_gpus
        FROM gua_report.card_runs(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)}, ticked = {ticked:Array(Int64)}, stored = {stored:UInt8}) AS runs
        ARRAY JOIN [(start_ms, toInt64(1)), (end_ms, toInt64(-1))] AS change
        WHERE state IN (1, 2, 3) AND (toString(host), toString(gpu)) GLOBAL IN (SELECT host, gpu FROM seen)
    )
SELECT
    scope.1 AS is_total,
    scope.2 AS host,
    max(now_expected) AS cards,
    toInt64(sumIf(lasts_ms, now_free > 0)) AS free_ms,
    toInt64(sumIf(lasts_ms, now_free <= 0 AND now_active + now_held >= now_expected AND now_held > 0)) AS contended_ms,
    toInt64(sumIf(lasts_ms, now_free <= 0 AND now_active >= now_expected AND now_held <= 0)) AS busy_ms,
    toInt64(sumIf(lasts_ms, now_free <= 0 AND now_active + now_held < now_expected)) AS unknown_ms,
    toInt64(round(sumIf(lasts_ms * now_held_gpus, now_free <= 0 AND now_active + now_held >= now_expected AND now_held > 0) * 1000)) AS contended_us
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
        ARRAY JOIN [(false, host), (true, '')] AS scope
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
