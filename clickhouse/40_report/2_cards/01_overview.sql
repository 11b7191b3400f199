-- One row is one card expected in the window. A card is expected from its first tick to the window's end, weighted by its share of a GPU.
-- Imports, programs, simulations and MIG instances are expected to their own last tick only. An instance is not expected in a hole in which
-- its GPU, or another instance of it, has a tick. A gap is a hole longer than one interval; before the window's end longer than two, as the
-- next tick may be on its way. elapsed_ms runs from the first tick to the last, without such holes; observed time beyond it was observed
-- twice. effective_since_ms and effective_until_ms are the first and last expected moment.
CREATE OR REPLACE VIEW gua_report.overview $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    seen AS
    (
        SELECT
            *,
            greatest(toUnixTimestamp64Milli(first_seen), {since_ms:Int64}) AS expected_since_ms,
            if(
                ifNull(source IN ('import', 'program', 'simulator'), false) OR ifNull(mig = 'instance', false),
                least(toUnixTimestamp64Milli(last_seen), {until_ms:Int64}),
                {until_ms:Int64}
            ) AS expected_until_ms
        FROM gua.cards
        WHERE ${OF_HOSTS}
            AND expected_since_ms < expected_until_ms
    ),
    sums AS
    (
        SELECT
            host,
            gpu,
            sum(observed_ms) AS card_observed_ms,
            toInt64(max(interval_ms)) AS longest_interval_ms,
            sumIf(ticks, state = ACTIVE) AS card_active_ticks,
            sumIf(ticks, state = IDLE_HELD) AS card_idle_held_ticks,
            sumIf(ticks, state = TRULY_IDLE) AS card_truly_idle_ticks,
            sumIf(ticks, state >= UNKNOWN) AS card_unknown_ticks,
            sumIf(gpu_us, state = ACTIVE) AS card_active_us,
            sumIf(gpu_us, state = IDLE_HELD) AS card_idle_held_us,
            sumIf(gpu_us, state = TRULY_IDLE) AS card_truly_idle_us,
            sumIf(gpu_us, state >= UNKNOWN) AS card_unknown_us,
            sumIf(sampled_us, state = ACTIVE) AS card_sampled_us,
            sumIf(idle_us, state = ACTIVE) AS card_idle_us,
            sum(listed_us) AS card_listed_us,
            sum(without_process_us) AS card_without_process_us,
            argMaxIf(recovery_action, recovery_at_ms, recovery_action IS NOT NULL) AS card_recovery_action,
            if(card_recovery_action IS NULL, NULL, sum(recovery_ms)) AS card_recovery_ms,
            if(card_recovery_action IS NULL, NULL, max(recovery_at_ms)) AS card_recovery_at_ms,
            sum(gpu_us) AS card_observed_us,
            sumMapIf([state], [toUInt64(ticks)], [gpu_us], state >= UNKNOWN) AS by_reason
        FROM ${HOURS_OF_CARDS}
        GROUP BY ALL
    ),
    stretches AS
    (
        -- Observed time. Starts and ends may be sorted separately: a hole lies between one end and the next start.
        SELECT
            host,
            gpu,
            arraySort(groupArray(start_ms)) AS every_start,
            arraySort(groupArray(end_ms)) AS every_end,
            -- For partitioned GPUs: consecutive intervals in an hour with one share are one piece. A hole beside it has the piece's mean
            -- share.
            CAST(
                if(
                    max(is_partitioned),
                    -- A group of tuples takes several times as long as groups of numbers.
                    arraySort(arrayZip(
                        groupArray(start_ms),
                        groupArray(end_ms),
                        groupArray(observed_ms),
                        groupArray(gpu_us),
                        groupArray(hour),
                        groupArray(is_partitioned)
                    )),
                    []
                ),
                'Array(Tuple(
                    start_ms Int64,
                    end_ms Int64,
                    observed_ms UInt64,
                    gpu_us UInt64,
                    hour DateTime(\'UTC\'),
                    is_partitioned Bool
                ))'
            ) AS every_share,
            CAST(
                arrayMap(
                    alike -> (
                        alike[1].start_ms,
                        alike[-1].end_ms,
                        arraySum(alike.observed_ms),
                        arraySum(alike.gpu_us),
                        arraySum(alike.gpu_us) / arraySum(alike.observed_ms)
                    ),
                    arraySplit(
                        (each, before) -> each.hour != before.hour
                            OR each.is_partitioned != before.is_partitioned
                            OR abs(each.gpu_us / each.observed_ms - before.gpu_us / before.observed_ms)
                                > 1000 * (1 / each.observed_ms + 1 / before.observed_ms),
                        every_share,
                        arrayPopBack(arrayPushFront(every_share, every_share[1]))
                    )
                ),
                'Array(Tuple(start_ms Int64, end_ms Int64, observed_ms UInt64, gpu_us UInt64, share Float64))'
            ) AS shares
        FROM ${INTERVALS_OF_CARDS}
        GROUP BY
            host,
            gpu
    ),
    observed AS
    (
        SELECT
            *,
            arrayFilter(
                hole -> hole.2 - hole.1 > longest_interval_ms,
                arrayZip(arrayPopBack(every_end), arrayPopFront(every_start))
            ) AS holes,
            -- A partitioned GPU has several shares, any other card one. A hole has the larger of the two shares beside it. Instances are
            -- expected from their first tick to their last; the GPU's own share is also expected in holes.
            if(
                card_observed_ms > arraySum(shares.observed_ms),
                (card_observed_us - arraySum(shares.gpu_us)) / (card_observed_ms - arraySum(shares.observed_ms)),
                0
            ) AS rest_share,
            if(shares.start_ms[1] = every_start[1], shares.share[1], rest_share) AS first_share,
            if(shares.end_ms[-1] = every_end[-1], shares.share[-1], rest_share) AS last_share,
            (every_end[-1] - every_start[1]) * rest_share
                + arraySum(piece -> (piece.end_ms - piece.start_ms) * (piece.share - rest_share), shares)
                + arraySum(
                    (before, after) -> if(
                        after.start_ms - before.end_ms <= longest_interval_ms OR has(holes, (before.end_ms, after.start_ms)),
                        (after.start_ms - before.end_ms) * (greatest(before.share, after.share) - rest_share),
                        0
                    ),
                    arrayPopBack(shares),
                    arrayPopFront(shares)
                ) AS first_to_last_gpu_us
        FROM sums
        INNER JOIN stretches USING (host, gpu)
    ),
    related AS
    (
        -- Each card with the other cards of its GPU, and the times in which any of them was observed without a gap.
        SELECT
            seen.host AS of_host,
            seen.gpu AS of_gpu,
            seen.*,
            observed.*,
            ifNull(seen.mig = 'instance', false) AS is_instance,
            if(is_instance, ifNull(seen.parent, seen.gpu), seen.gpu) AS whole,
            if(is_observed, every_end[-1] - every_start[1] - arraySum(hole -> hole.2 - hole.1, holes) - toInt64(card_observed_ms), 0)
                AS short_holes_ms,
            max(is_instance) OVER whole_gpu AS is_divided,
            max(longest_interval_ms) OVER whole_gpu AS gpu_interval_ms,
            max(if(is_observed AND NOT is_instance, short_holes_ms, NULL)) OVER whole_gpu AS gpu_short_holes_ms,
            groupArrayArray(if(is_observed, arrayPushFront(holes.2, every_start[1]), [])) OVER whole_gpu AS gpu_starts,
            groupArrayArray(if(is_observed, arrayPushBack(holes.1, every_end[-1]), [])) OVER whole_gpu AS gpu_ends,
            min(expected_since_ms) OVER whole_gpu AS gpu_since_ms,
            max(expected_until_ms) OVER whole_gpu AS gpu_until_ms,
            card_observed_ms > 0 AS is_observed
        FROM seen
        LEFT JOIN observed
            ON observed.host = seen.host AND observed.gpu = seen.gpu
        WINDOW whole_gpu AS (PARTITION BY seen.host, whole)
    ),
    gone AS
    (
        -- Absences of an instance while its GPU was observed: long holes with a tick of the GPU, and short ones beyond the GPU's own.
        SELECT
            *,
            arrayFilter(hole -> hole.2 - hole.1 > gpu_interval_ms, holes) AS long_holes,
            if(
                is_instance,
                arrayFilter(
                    hole -> arrayCount(start_ms -> start_ms < hole.2, gpu_starts) > arrayCount(end_ms -> end_ms <= hole.1, gpu_ends),
                    if(
                        is_observed,
                        arrayPushFront(
                            arrayPushBack(long_holes, (every_end[-1], expected_until_ms)),
                            (expected_since_ms, every_start[1])
                        ),
                        [(expected_since_ms, expected_until_ms)]
                    )
                ),
                []
            ) AS absences,
            arraySum(hole -> hole.2 - hole.1, absences)
                + if(
                    -- greatest(NULL, 0) differs between versions of the engine.
                    is_instance AND is_observed AND gpu_short_holes_ms IS NOT NULL,
                    greatest(
                        short_holes_ms + arraySum(hole -> hole.2 - hole.1, holes) - arraySum(hole -> hole.2 - hole.1, long_holes)
                            - greatest(assumeNotNull(gpu_short_holes_ms), 0),
                        0
                    ),
                    0
                ) AS absent_ms
        FROM related
    ),
    presumed AS
    (
        SELECT
            *,
            if(card_observed_ms > 0, card_observed_us / 1000 / card_observed_ms, share) AS card_share,
            round(
                if(
                    is_observed,
                    (
                        (every_start[1] - expected_since_ms) * first_share
                        + first_to_last_gpu_us
                        + (expected_until_ms - every_end[-1]) * last_share
                    ) / 1000,
                    (expected_until_ms - expected_since_ms) * share
                )
                - absent_ms * card_share
                ,
                3
            ) AS presumed_gpu_ms,
            greatest(round(presumed_gpu_ms - card_observed_gpu_ms, 3), 0.) AS presumed_unobserved_gpu_ms,
            if(
                is_divided,
                greatest(round(sum(presumed_gpu_ms) OVER whole_gpu - (gpu_until_ms - gpu_since_ms), 3), 0.),
                0.
            ) AS surplus_gpu_ms,
            sum(if(is_instance, presumed_unobserved_gpu_ms, 0.)) OVER whole_gpu AS of_instances_gpu_ms,
            card_observed_us / 1000 AS card_observed_gpu_ms,
            ifNull(if(longest_interval_ms > 0, longest_interval_ms, interval_ms), 0) AS card_interval_ms
        FROM gone
        WINDOW whole_gpu AS (PARTITION BY of_host, whole)
    )
SELECT
    toString(of_host) AS host,
    toString(of_gpu) AS gpu,
    presumed.gpu_index AS gpu_index,
    presumed.name AS name,
    presumed.model AS model,
    -- Card info is that of the newest tick. If this lies after the window, the last share decides mig. A GPU with a last piece
    -- below 999 us per ms was partitioned; from 999 on it was whole.
    if(
        toUnixTimestamp64Milli(last_seen) > {until_ms:Int64}
            AND is_observed
            AND ifNull(presumed.mig IN ('none', 'parent'), false),
        multiIf(
            last_share < 999 AND notEmpty(shares) AND shares.end_ms[-1] = every_end[-1], 'parent',
            last_share >= 999, 'none',
            presumed.mig
        ),
        presumed.mig
    ) AS mig,
    presumed.parent AS parent,
    if(is_observed AND absences.1[1] = expected_since_ms, every_start[1], expected_since_ms) AS effective_since_ms,
    if(is_observed AND absences.2[-1] = expected_until_ms, every_end[-1], expected_until_ms) AS effective_until_ms,
    card_observed_ms AS observed_ms,
    if(is_observed, every_end[-1] - every_start[1] - arraySum(holes.2) + arraySum(holes.1), 0) AS elapsed_ms,
    -- Expected time of more than one GPU is a surplus. It is subtracted from unobserved time: first in proportion from the
    -- instances, then from the GPU.
    round(
        presumed_gpu_ms - multiIf(
            surplus_gpu_ms = 0, 0,
            is_instance,
            presumed_unobserved_gpu_ms * least(surplus_gpu_ms / greatest(of_instances_gpu_ms, surplus_gpu_ms), 1),
            least(presumed_unobserved_gpu_ms, greatest(surplus_gpu_ms - of_instances_gpu_ms, 0))
        ),
        3
    ) AS expected_gpu_ms,
    card_observed_gpu_ms AS observed_gpu_ms,
    -- Time that was observed twice does not fill a hole.
    greatest(
        round(
            expected_gpu_ms - card_observed_gpu_ms
                + greatest(toInt64(card_observed_ms) - elapsed_ms, 0) * card_share,
            3
        ),
        0.
    ) AS unobserved_gpu_ms,
    arrayCount(
        (end_ms, start_ms) -> start_ms - end_ms > card_interval_ms,
        arrayPushFront(every_end, expected_since_ms),
        arrayPushBack(every_start, expected_until_ms - card_interval_ms)
    )
    - arrayCount(
        hole -> hole.2 - hole.1 > if(hole.2 = expected_until_ms, 2, 1) * card_interval_ms,
        absences
    )
    AS gaps,
    card_active_ticks AS active_card_ticks,
    card_idle_held_ticks AS idle_held_card_ticks,
    card_truly_idle_ticks AS truly_idle_card_ticks,
    card_unknown_ticks AS unknown_card_ticks,
    card_active_us / 1000 AS active_gpu_ms,
    card_idle_held_us / 1000 AS idle_held_gpu_ms,
    card_truly_idle_us / 1000 AS truly_idle_gpu_ms,
    card_unknown_us / 1000 AS unknown_gpu_ms,
    card_sampled_us / 1000 AS active_sampled_gpu_ms,
    card_idle_us / 1000 AS active_idle_gpu_ms,
    card_listed_us / 1000 AS active_listed_gpu_ms,
    card_without_process_us / 1000 AS without_process_gpu_ms,
    card_recovery_action AS recovery_action,
    card_recovery_ms AS recovery_ms,
    card_recovery_at_ms AS recovery_at_ms,
    arrayMap(
        (code, ticks, us) -> (REASON_NAMES[code - UNKNOWN + 1], ticks, us / 1000),
        tupleElement(by_reason, 1),
        tupleElement(by_reason, 2),
        tupleElement(by_reason, 3)
    ) AS reasons
FROM presumed
-- An instance that was absent for the whole window is not listed.
WHERE NOT is_instance OR is_observed OR expected_gpu_ms > 0
