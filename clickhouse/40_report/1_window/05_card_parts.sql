-- One row is a part of what is known of one card in the window; the parts of a card add up, and its observed stretches are
-- those of all of them. Pieces are ticks in a row with one share of a GPU, in hours in which it was partitioned. Counted hours
-- are added up by host, all cards of it at once, where they were the same cards; the hours asked for are made from their ticks.
CREATE OR REPLACE VIEW gua_report.card_parts $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    -- ONLY with counted hours
    hours AS
    (
        SELECT *
        FROM ${USED_ROWS}
    ),
    -- END
    spans AS
    (
        SELECT *
        FROM gua_report.spans(${TICK_WINDOW})
    ),
${HOUR_STATES}
SELECT *
FROM
(
    -- ONLY with counted hours
    SELECT
        host,
        card_gpu AS gpu,
        toInt64(part_interval_ms) AS interval_ms,
        part_starts_ms AS starts_ms,
        part_ends_ms AS ends_ms,
        part_active_ticks AS active_ticks,
        part_idle_held_ticks AS idle_held_ticks,
        part_truly_idle_ticks AS truly_idle_ticks,
        part_unknown_ticks AS unknown_ticks,
        part_active_gpu_time_ms * 1000 AS active_gpu_us,
        part_idle_held_gpu_time_ms * 1000 AS idle_held_gpu_us,
        part_truly_idle_gpu_time_ms * 1000 AS truly_idle_gpu_us,
        part_unknown_gpu_time_ms * 1000 AS unknown_gpu_us,
        part_active_ms + part_idle_held_ms + part_truly_idle_ms + part_unknown_ms AS observed_ms,
        toUInt64(0) AS active_sampled_us,
        toUInt64(0) AS active_idle_us,
        CAST([], 'Array(Tuple(code UInt8, ticks UInt64, gpu_us UInt64))') AS reasons,
        CAST([], 'Array(Tuple(start_ms Int64, end_ms Int64, observed_ms UInt64, gpu_us UInt64, share Float64))') AS pieces
    FROM
    (
        SELECT
            host,
            any(cards.gpu) AS gpus,
            -- Where cards differ in it, each has its own below.
            maxIf(interval_ms, notEmpty(starts_ms)) AS part_interval_ms,
            arraySort(groupArrayArray(starts_ms)) AS every_start,
            arraySort(groupArrayArray(ends_ms)) AS every_end,
            -- From one array beside the other: what a lambda takes from outside is copied for each element.
            if(
                empty(every_start),
                [],
                arrayPushFront(
                    arrayFilter((start, end) -> start - end > part_interval_ms, arrayPopFront(every_start), arrayPopBack(every_end)),
                    every_start[1]
                )
            ) AS part_starts_ms,
            if(
                empty(every_start),
                [],
                arrayPushBack(
                    arrayFilter((end, start) -> start - end > part_interval_ms, arrayPopBack(every_end), arrayPopFront(every_start)),
                    every_end[-1]
                )
            ) AS part_ends_ms,
            sumForEach(cards.active_ticks) AS every_active_ticks,
            sumForEach(cards.idle_held_ticks) AS every_idle_held_ticks,
            sumForEach(cards.truly_idle_ticks) AS every_truly_idle_ticks,
            sumForEach(cards.unknown_ticks) AS every_unknown_ticks,
            sumForEach(cards.active_gpu_time_ms) AS every_active_gpu_time_ms,
            sumForEach(cards.idle_held_gpu_time_ms) AS every_idle_held_gpu_time_ms,
            sumForEach(cards.truly_idle_gpu_time_ms) AS every_truly_idle_gpu_time_ms,
            sumForEach(cards.unknown_gpu_time_ms) AS every_unknown_gpu_time_ms,
            sumForEach(cards.active_ms) AS every_active_ms,
            sumForEach(cards.idle_held_ms) AS every_idle_held_ms,
            sumForEach(cards.truly_idle_ms) AS every_truly_idle_ms,
            sumForEach(cards.unknown_ms) AS every_unknown_ms
        FROM hours
        GROUP BY
            host,
            cards_key
    )
    ARRAY JOIN
        gpus AS card_gpu,
        every_active_ticks AS part_active_ticks,
        every_idle_held_ticks AS part_idle_held_ticks,
        every_truly_idle_ticks AS part_truly_idle_ticks,
        every_unknown_ticks AS part_unknown_ticks,
        every_active_gpu_time_ms AS part_active_gpu_time_ms,
        every_idle_held_gpu_time_ms AS part_idle_held_gpu_time_ms,
        every_truly_idle_gpu_time_ms AS part_truly_idle_gpu_time_ms,
        every_unknown_gpu_time_ms AS part_unknown_gpu_time_ms,
        every_active_ms AS part_active_ms,
        every_idle_held_ms AS part_idle_held_ms,
        every_truly_idle_ms AS part_truly_idle_ms,
        every_unknown_ms AS part_unknown_ms
    UNION ALL
    SELECT
        host,
        card_gpu AS gpu,
        toInt64(max(card_interval_ms)) AS interval_ms,
        arraySort(groupArrayArray(card_starts_ms)) AS starts_ms,
        arraySort(groupArrayArray(card_ends_ms)) AS ends_ms,
${NO_STATES}
        toUInt64(0) AS observed_ms,
        toUInt64(0) AS active_sampled_us,
        toUInt64(0) AS active_idle_us,
        CAST([], 'Array(Tuple(code UInt8, ticks UInt64, gpu_us UInt64))') AS reasons,
        CAST([], 'Array(Tuple(start_ms Int64, end_ms Int64, observed_ms UInt64, gpu_us UInt64, share Float64))') AS pieces
    FROM hours
    ARRAY JOIN
        cards.gpu AS card_gpu,
        cards.interval_ms AS card_interval_ms,
        cards.starts_ms AS card_starts_ms,
        cards.ends_ms AS card_ends_ms
    WHERE empty(hours.starts_ms)
    GROUP BY
        host,
        card_gpu
    UNION ALL
    SELECT
        host,
        why_gpu AS gpu,
        toInt64(0) AS interval_ms,
        CAST([], 'Array(Int64)') AS starts_ms,
        CAST([], 'Array(Int64)') AS ends_ms,
${NO_STATES}
        toUInt64(0) AS observed_ms,
        toUInt64(0) AS active_sampled_us,
        toUInt64(0) AS active_idle_us,
        CAST([(why, sum(why_ticks), sum(why_gpu_time_ms) * 1000)], 'Array(Tuple(code UInt8, ticks UInt64, gpu_us UInt64))') AS reasons,
        CAST([], 'Array(Tuple(start_ms Int64, end_ms Int64, observed_ms UInt64, gpu_us UInt64, share Float64))') AS pieces
    FROM hours
    ARRAY JOIN
        unknowns.gpu AS why_gpu,
        unknowns.reason AS why,
        unknowns.ticks AS why_ticks,
        unknowns.gpu_time_ms AS why_gpu_time_ms
    GROUP BY
        host,
        why_gpu,
        why
    UNION ALL
    SELECT
        host,
        share_gpu AS gpu,
        toInt64(0) AS interval_ms,
        CAST([], 'Array(Int64)') AS starts_ms,
        CAST([], 'Array(Int64)') AS ends_ms,
${NO_STATES}
        toUInt64(0) AS observed_ms,
        toUInt64(0) AS active_sampled_us,
        toUInt64(0) AS active_idle_us,
        CAST([], 'Array(Tuple(code UInt8, ticks UInt64, gpu_us UInt64))') AS reasons,
        CAST(
            groupArray((share_start_ms, share_end_ms, share_ms, share_gpu_time_ms * 1000, share_gpu_time_ms * 1000 / share_ms)),
            'Array(Tuple(start_ms Int64, end_ms Int64, observed_ms UInt64, gpu_us UInt64, share Float64))'
        ) AS pieces
    FROM hours
    ARRAY JOIN
        shares.gpu AS share_gpu,
        shares.start_ms AS share_start_ms,
        shares.end_ms AS share_end_ms,
        shares.duration_ms AS share_ms,
        shares.gpu_time_ms AS share_gpu_time_ms
    GROUP BY
        host,
        share_gpu
    UNION ALL
    SELECT
        host,
        idle_gpu AS gpu,
        toInt64(0) AS interval_ms,
        CAST([], 'Array(Int64)') AS starts_ms,
        CAST([], 'Array(Int64)') AS ends_ms,
${NO_STATES}
        toUInt64(0) AS observed_ms,
        sum(hour_sampled_us) AS active_sampled_us,
        sum(hour_idle_us) AS active_idle_us,
        CAST([], 'Array(Tuple(code UInt8, ticks UInt64, gpu_us UInt64))') AS reasons,
        CAST([], 'Array(Tuple(start_ms Int64, end_ms Int64, observed_ms UInt64, gpu_us UInt64, share Float64))') AS pieces
    FROM hours
    ARRAY JOIN
        idle_times.gpu AS idle_gpu,
        idle_times.state AS idle_state,
        idle_times.sampled_us AS hour_sampled_us,
        idle_times.idle_us AS hour_idle_us
    WHERE idle_state = ACTIVE
    GROUP BY
        host,
        idle_gpu
    UNION ALL
    -- END
    SELECT
        host,
        gpu,
        toInt64(card_interval_ms) AS interval_ms,
        card_starts_ms AS starts_ms,
        card_ends_ms AS ends_ms,
        toUInt64(active_ticks) AS active_ticks,
        toUInt64(idle_held_ticks) AS idle_held_ticks,
        toUInt64(truly_idle_ticks) AS truly_idle_ticks,
        toUInt64(unknown_ticks) AS unknown_ticks,
        active_gpu_us,
        idle_held_gpu_us,
        truly_idle_gpu_us,
        unknown_gpu_us,
        active_ms + idle_held_ms + truly_idle_ms + unknown_ms AS observed_ms,
        active_sampled_us,
        active_idle_us,
        CAST(card_hour.reasons, 'Array(Tuple(code UInt8, ticks UInt64, gpu_us UInt64))') AS reasons,
        card_hour.pieces AS pieces
    FROM card_hour
)
