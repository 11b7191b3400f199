-- One row is one card that was expected in the window, and one more row (is_total) is all of them together: they are
-- read once for the whole report, and the views cards, headline, unknown and coverage are parts of this one.
-- Expected: from first seen to the window's end, or to its own last tick where no agent keeps watching (imports, the
-- simulator) or the card is a MIG instance, which may be gone for good; weighted by the card's share of a whole GPU. A gap
-- is a hole of more than one interval; the hole before the window's end is one only past two, since the next tick is
-- still to come. Share is of observed time; equivalent GPUs = share x expected card-hours / hours of the effective
-- window, which is the window clipped to the first and last expected moment of any card.
CREATE OR REPLACE VIEW gua_report.overview $ON_CLUSTER
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
    by_state AS
    (
        SELECT
            host,
            gpu,
            state_code,
            count() AS card_ticks,
            sum(gpu_ms) AS state_gpu_ms,
            sum(inside_ms) AS state_ms,
            max(interval_ms) AS longest_interval_ms,
            groupArray(inside_since_ms) AS starts_ms,
            groupArray(inside_until_ms) AS ends_ms
        FROM gua_report.spans(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)})
        GROUP BY
            host,
            gpu,
            state_code
    ),
    observed AS
    (
        -- Spans of one card do not overlap, so starts and ends may be sorted apart.
        SELECT
            host,
            gpu,
            sum(state_ms) AS observed_ms,
            sum(state_gpu_ms) AS observed_gpu_ms,
            max(longest_interval_ms) AS interval_ms,
            arraySort(groupArrayArray(starts_ms)) AS starts_ms,
            arraySort(groupArrayArray(ends_ms)) AS ends_ms,
            sumIf(card_ticks, state_code = 1) AS active_card_ticks,
            sumIf(card_ticks, state_code = 2) AS idle_held_card_ticks,
            sumIf(card_ticks, state_code = 3) AS truly_idle_card_ticks,
            sumIf(card_ticks, state_code >= 4) AS unknown_card_ticks,
            sumIf(state_gpu_ms, state_code = 1) AS active_gpu_ms,
            sumIf(state_gpu_ms, state_code = 2) AS idle_held_gpu_ms,
            sumIf(state_gpu_ms, state_code = 3) AS truly_idle_gpu_ms,
            sumIf(state_gpu_ms, state_code >= 4) AS unknown_gpu_ms,
            groupArrayIf(
                (['lost', 'utilization', 'pid_namespace', 'processes', 'memory'][state_code - 3], card_ticks, state_gpu_ms),
                state_code >= 4
            ) AS reasons
        FROM by_state
        GROUP BY
            host,
            gpu
    ),
    expected AS
    (
        SELECT
            toString(seen.host) AS host,
            toString(seen.gpu) AS gpu,
            seen.gpu_index AS card_index,
            seen.name AS card_name,
            seen.model AS card_model,
            seen.mig AS card_mig,
            seen.parent AS card_parent,
            seen.source AS source,
            seen.expected_since_ms AS card_since_ms,
            seen.expected_until_ms AS card_until_ms,
            observed.observed_ms AS card_observed_ms,
            if(observed.observed_ms > 0, observed.ends_ms[-1] - observed.starts_ms[1], 0) AS card_elapsed_ms,
            if(observed.observed_ms > 0, observed.observed_gpu_ms / observed.observed_ms, seen.share) AS card_share,
            round((card_until_ms - card_since_ms) * card_share, 3) AS card_expected_gpu_ms,
            round(observed.observed_gpu_ms, 3) AS card_observed_gpu_ms,
            greatest(round(card_expected_gpu_ms - card_observed_gpu_ms, 3), 0.) AS card_unobserved_gpu_ms,
            ifNull(if(observed.interval_ms > 0, observed.interval_ms, seen.interval_ms), 0) AS interval_ms,
            arrayCount(
                (end_ms, start_ms) -> start_ms - end_ms > interval_ms,
                arrayPushFront(observed.ends_ms, card_since_ms),
                arrayPushBack(observed.starts_ms, card_until_ms - interval_ms)
            ) AS card_gaps,
            observed.active_card_ticks AS card_active_card_ticks,
            observed.idle_held_card_ticks AS card_idle_held_card_ticks,
            observed.truly_idle_card_ticks AS card_truly_idle_card_ticks,
            observed.unknown_card_ticks AS card_unknown_card_ticks,
            round(observed.active_gpu_ms, 3) AS card_active_gpu_ms,
            round(observed.idle_held_gpu_ms, 3) AS card_idle_held_gpu_ms,
            round(observed.truly_idle_gpu_ms, 3) AS card_truly_idle_gpu_ms,
            round(observed.unknown_gpu_ms, 3) AS card_unknown_gpu_ms,
            observed.reasons AS card_reasons
        FROM seen
        LEFT JOIN observed
            ON observed.host = seen.host AND observed.gpu = seen.gpu
    )
SELECT
    grouping(host) = 1 AS is_total,
    host,
    gpu,
    any(card_index) AS gpu_index,
    any(card_name) AS name,
    any(card_model) AS model,
    any(card_mig) AS mig,
    any(card_parent) AS parent,
    any(card_share) AS share,
    max(card_observed_ms) AS observed_ms,
    max(card_elapsed_ms) AS elapsed_ms,
    count() AS cards,
    min(card_since_ms) AS effective_since_ms,
    max(card_until_ms) AS effective_until_ms,
    round(sum(card_expected_gpu_ms), 3) AS expected_gpu_ms,
    round(sum(card_observed_gpu_ms), 3) AS observed_gpu_ms,
    round(sum(card_unobserved_gpu_ms), 3) AS unobserved_gpu_ms,
    if(expected_gpu_ms > 0, observed_gpu_ms / expected_gpu_ms, NULL) AS ratio,
    sum(card_gaps) AS gaps,
    sum(card_active_card_ticks) AS active_card_ticks,
    sum(card_idle_held_card_ticks) AS idle_held_card_ticks,
    sum(card_truly_idle_card_ticks) AS truly_idle_card_ticks,
    sum(card_unknown_card_ticks) AS unknown_card_ticks,
    round(sum(card_active_gpu_ms), 3) AS active_gpu_ms,
    round(sum(card_idle_held_gpu_ms), 3) AS idle_held_gpu_ms,
    round(sum(card_truly_idle_gpu_ms), 3) AS truly_idle_gpu_ms,
    round(sum(card_unknown_gpu_ms), 3) AS unknown_gpu_ms,
    expected_gpu_ms / (effective_until_ms - effective_since_ms) AS expected_gpus,
    arrayMap(
        one -> (
            one.1,
            one.2,
            one.3,
            if(observed_gpu_ms > 0, one.3 / observed_gpu_ms, NULL),
            if(observed_gpu_ms > 0, one.3 / observed_gpu_ms * expected_gpus, NULL)
        ),
        [
            ('active', active_card_ticks, active_gpu_ms),
            ('idle-held', idle_held_card_ticks, idle_held_gpu_ms),
            ('truly-idle', truly_idle_card_ticks, truly_idle_gpu_ms),
            ('unknown', unknown_card_ticks, unknown_gpu_ms)
        ]
    ) AS states,
    groupArrayArray(card_reasons) AS why,
    arrayMap(
        one -> (
            one,
            arraySum(each -> if(each.1 = one, each.2, 0), why),
            round(arraySum(each -> if(each.1 = one, each.3, 0), why), 3)
        ),
        arraySort(arrayDistinct(why.1))
    ) AS reasons
FROM expected
GROUP BY GROUPING SETS
    (
        (host, gpu),
        ()
    )
ORDER BY
    is_total,
    host,
    gpu_index,
    gpu
