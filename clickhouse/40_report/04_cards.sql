-- One row is one card that was expected in the window. Expected: from first seen to the window's end, or to its own last
-- tick where no agent keeps watching (imports, the simulator) or the card is a MIG instance, which may be gone for good.
-- Weighted by the card's share of a whole GPU. A gap is a hole of more than one interval; the hole before the window's
-- end is one only past two, since the next tick is still to come.
CREATE OR REPLACE VIEW gua_report.cards $ON_CLUSTER
AS
WITH
    seen AS
    (
        SELECT
            *,
            greatest(toUnixTimestamp64Milli(first_seen), {since_ms:Int64}) AS expected_since_ms,
            if(
                ifNull(source IN ('import', 'simulator'), false) OR ifNull(mig = 'instance', false),
                least(toUnixTimestamp64Milli(last_seen), {until_ms:Int64}),
                {until_ms:Int64}
            ) AS expected_until_ms
        FROM gua.cards
        WHERE (empty({hosts:Array(String)}) OR has({hosts:Array(String)}, host))
            AND expected_since_ms < expected_until_ms
    ),
    observed AS
    (
        SELECT
            host,
            gpu,
            sum(inside_ms) AS observed_ms,
            sum(gpu_ms) AS observed_gpu_ms,
            max(interval_ms) AS interval_ms,
            arraySort(groupArray((inside_since_ms, inside_until_ms))) AS spans,
            countIf(state = 'active') AS active_card_ticks,
            countIf(state = 'idle-held') AS idle_held_card_ticks,
            countIf(state = 'truly-idle') AS truly_idle_card_ticks,
            countIf(state = 'unknown') AS unknown_card_ticks,
            sumIf(gpu_ms, state = 'active') AS active_gpu_ms,
            sumIf(gpu_ms, state = 'idle-held') AS idle_held_gpu_ms,
            sumIf(gpu_ms, state = 'truly-idle') AS truly_idle_gpu_ms,
            sumIf(gpu_ms, state = 'unknown') AS unknown_gpu_ms
        FROM gua_report.spans(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)})
        GROUP BY
            host,
            gpu
    ),
    last_shares AS
    (
        SELECT
            host,
            gpu,
            any(gpu_time_ms / duration_ms) AS last_share
        FROM gua.card_ticks FINAL
        WHERE (host, gpu, ts) IN (SELECT host, gpu, last_seen FROM seen WHERE (host, gpu) NOT IN (SELECT host, gpu FROM observed))
        GROUP BY
            host,
            gpu
    )
SELECT
    toString(seen.host) AS host,
    toString(seen.gpu) AS gpu,
    seen.gpu_index AS gpu_index,
    seen.name AS name,
    seen.model AS model,
    seen.mig AS mig,
    seen.parent AS parent,
    seen.source AS source,
    seen.expected_since_ms AS expected_since_ms,
    seen.expected_until_ms AS expected_until_ms,
    if(observed.observed_ms > 0, observed.observed_gpu_ms / observed.observed_ms, ifNull(last_shares.last_share, 1.)) AS share,
    round((expected_until_ms - expected_since_ms) * share, 3) AS expected_gpu_ms,
    round(observed.observed_gpu_ms, 3) AS observed_gpu_ms,
    greatest(round(expected_gpu_ms - observed_gpu_ms, 3), 0.) AS unobserved_gpu_ms,
    ifNull(if(observed.interval_ms > 0, observed.interval_ms, seen.interval_ms), 0) AS interval_ms,
    arrayCount(
        (earlier, later) -> later.1 - earlier.2 > interval_ms,
        arrayPushFront(observed.spans, (expected_since_ms, expected_since_ms)),
        arrayPushBack(observed.spans, (expected_until_ms - interval_ms, expected_until_ms))
    ) AS gaps,
    observed.active_card_ticks AS active_card_ticks,
    observed.idle_held_card_ticks AS idle_held_card_ticks,
    observed.truly_idle_card_ticks AS truly_idle_card_ticks,
    observed.unknown_card_ticks AS unknown_card_ticks,
    round(observed.active_gpu_ms, 3) AS active_gpu_ms,
    round(observed.idle_held_gpu_ms, 3) AS idle_held_gpu_ms,
    round(observed.truly_idle_gpu_ms, 3) AS truly_idle_gpu_ms,
    round(observed.unknown_gpu_ms, 3) AS unknown_gpu_ms
FROM seen
LEFT JOIN observed
    ON observed.host = seen.host AND observed.gpu = seen.gpu
LEFT JOIN last_shares
    ON last_shares.host = seen.host AND last_shares.gpu = seen.gpu
ORDER BY
    host,
    gpu_index,
    gpu
