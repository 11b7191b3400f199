-- One row is one process in the newest tick with processes of its card (last_ms), if that ends after current_since_ms: its names, state
-- and memory. idle_since_ms and idle_ms describe its idle streak; idle_first_span_ms is the streak's first tick. known_before_ms is the
-- end of the last known state before it, or 0. active_24h_ms is active time in the 24 h before last_ms. On an idle-held card: GPU time,
-- memory x time [KiB ms], the time with known memory, and GPU time by price number.
CREATE OR REPLACE VIEW gua_report.holders $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    -- Processes with ticks since current_since_ms or up to 25 h before, and their active time in the 24 h before their last tick.
    recent AS
    (
        SELECT
            process,
            if(
                countIf(state != PROCESS_UNKNOWN) > 0,
                sumIf(
                    toUInt64(round(
                        observed_ms * (end_ms - greatest(start_ms, its_last_ms - 86400000)) / greatest(end_ms - start_ms, 1)
                    )),
                    state = ACTIVE
                ),
                NULL
            ) AS active_24h_ms
        FROM
        (
            SELECT
                cityHash64(host, gpu, pid, created_ms) AS process,
                state,
                start_ms,
                end_ms,
                observed_ms,
                max(end_ms) OVER (PARTITION BY process) AS its_last_ms
            FROM ${INTERVALS_OF_PROCESSES}
            WHERE hour > toDateTime(greatest(intDiv({current_since_ms:Int64}, 1000) - 90000, 0), 'UTC')
        )
        WHERE end_ms > its_last_ms - 86400000
        GROUP BY process
    ),
    its_days AS
    (
        SELECT
            every.*,
            recent.process AS process,
            recent.active_24h_ms AS active_24h_ms
        FROM ${DAYS_OF_PROCESSES} AS every
        INNER JOIN recent
            ON recent.process = cityHash64(every.host, every.gpu, every.pid, every.created_ms)
    )
SELECT
    toString(streaks.host) AS host,
    toString(streaks.gpu) AS gpu,
    streaks.pid AS pid,
    streaks.created_ms AS created_ms,
    argMax((owner, program, container_id, pod_uid, slurm_job_id, systemd_unit), end_ms) AS owner,
    max(end_ms) AS last_ms,
    toBool(any(idles_now)) AS is_idle,
    argMax(tuple(streaks.memory_bytes), end_ms).1 AS memory_bytes,
    any(streak_since_ms) AS idle_since_ms,
    if(is_idle, sum(if(is_head, head_idle_ms, 0) + if(is_tail, tail_idle_ms, 0)), NULL) AS idle_ms,
    if(
        is_idle,
        max(multiIf(
            is_tail AND tail_since_ms = streak_since_ms, tail_first_span_ms,
            is_head AND head_since_ms = streak_since_ms, head_first_span_ms,
            0
        )),
        NULL
    ) AS idle_first_span_ms,
    if(
        is_idle,
        max(multiIf(
            is_tail AND tail_since_ms = streak_since_ms, tail_known_before_ms,
            is_head AND head_since_ms = streak_since_ms OR start_ms >= streak_since_ms, 0,
            known_until_ms
        )),
        NULL
    ) AS known_before_ms,
    min(start_ms) AS first_ms,
    any(streaks.active_24h_ms) AS active_24h_ms,
    sum(streaks.idle_held_us) AS idle_held_us,
    sum(memory_kib_ms) AS idle_held_kib_ms,
    sum(memory_known_ms) AS idle_held_known_ms,
    CAST(
        arrayZip(
            tupleElement(sumMapIf([price], [streaks.idle_held_us], price > 0 AND streaks.idle_held_us > 0), 1),
            tupleElement(sumMapIf([price], [streaks.idle_held_us], price > 0 AND streaks.idle_held_us > 0), 2)
        ),
        'Array(Tuple(UInt32, UInt64))'
    ) AS idle_held_priced
FROM
(
    SELECT
        streaks.*,
        if(
            idles_now,
            min(multiIf(is_tail, nullIf(tail_since_ms, 0), is_head, nullIf(head_since_ms, 0), NULL))
                OVER (PARTITION BY process),
            NULL
        ) AS streak_since_ms,
        toUInt32(arrayLast(
            number -> {price_starts:Array(Int64)}[number] < end_ms,
            cards.prices
        )) AS price
    FROM
    (
        SELECT
            *,
            argMax(last_state, end_ms) OVER of_process = PROCESS_IDLE AS idles_now,
            max(streak) OVER of_process AS newest_streak,
            max(end_ms) OVER of_process AS its_last_ms,
            max(end_ms) OVER (PARTITION BY host, gpu) AS card_last_ms,
            streak - has_break = newest_streak AS is_head,
            has_break AND streak = newest_streak AS is_tail
        FROM
        (
${PROCESS_STREAKS}
        )
        WINDOW of_process AS (PARTITION BY process)
    ) AS streaks
    LEFT JOIN ${PRICED_CARDS} AS cards
        ON cards.card_host = streaks.host AND cards.card_gpu = streaks.gpu
    WHERE its_last_ms = card_last_ms AND card_last_ms > {current_since_ms:Int64}
) AS streaks
GROUP BY
    streaks.host,
    streaks.gpu,
    streaks.pid,
    streaks.created_ms
