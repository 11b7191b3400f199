-- One row is one process in the newest tick with processes of its card (last_ms): its names, state and memory. idle_since_ms and idle_ms
-- describe its idle streak; idle_first_span_ms is the streak's first tick. known_before_ms is the end of the last known state before it,
-- or 0. active_24h_ms is active time in the 24 h before last_ms. On an idle-held card: GPU time, memory x time [KiB ms], the time with
-- known memory, and GPU time by price number.
CREATE OR REPLACE VIEW gua_report.holders $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    -- Processes in the newest tick of each card, by hash: groups by one number take half the time.
    listed AS
    (
        SELECT process
        FROM
        (
            SELECT
                cityHash64(host, gpu, pid, created_ms) AS process,
                cityHash64(any(host), any(gpu)) AS card,
                max(end_ms) AS its_last_ms,
                max(its_last_ms) OVER (PARTITION BY card) AS card_last_ms
            FROM ${INTERVALS_OF_PROCESSES}
            GROUP BY process
        )
        WHERE its_last_ms = card_last_ms
    ),
    its_intervals AS
    (
        SELECT *
        FROM
        (
            SELECT
                *,
                cityHash64(host, gpu, pid, created_ms) AS process
            FROM ${INTERVALS_OF_PROCESSES}
        ) AS intervals
        INNER JOIN listed USING (process)
    ),
    streaks AS
    (
        SELECT
            *,
            max(end_ms) OVER process AS newest_ms,
            argMax(state, end_ms) OVER process = PROCESS_IDLE AS idles_now,
            streak = max(streak) OVER process AND state = PROCESS_IDLE AS is_current
        FROM
        (
${PROCESS_STREAKS}
        )
        WINDOW process AS (PARTITION BY host, gpu, pid, created_ms)
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
    if(is_idle, sumIf(observed_ms, is_current), NULL) AS idle_ms,
    if(is_idle, argMinIf(first_span_ms, start_ms, is_current), NULL) AS idle_first_span_ms,
    if(is_idle, maxIf(end_ms, state != PROCESS_UNKNOWN AND start_ms < streak_since_ms), NULL) AS known_before_ms,
    min(start_ms) AS first_ms,
    if(
        countIf(is_recent AND state != PROCESS_UNKNOWN) > 0,
        sumIf(
            toUInt64(round(
                observed_ms * (end_ms - greatest(start_ms, newest_ms - 86400000)) / greatest(end_ms - start_ms, 1)
            )),
            is_recent AND state = ACTIVE
        ),
        NULL
    ) AS active_24h_ms,
    sumIf(gpu_us, card_state = IDLE_HELD) AS idle_held_us,
    sumIf(memory_kib_ms, card_state = IDLE_HELD) AS idle_held_kib_ms,
    sumIf(memory_known_ms, card_state = IDLE_HELD) AS idle_held_known_ms,
    CAST(
        arrayZip(
            tupleElement(sumMapIf([price], [gpu_us], card_state = IDLE_HELD AND price > 0), 1),
            tupleElement(sumMapIf([price], [gpu_us], card_state = IDLE_HELD AND price > 0), 2)
        ),
        'Array(Tuple(UInt32, UInt64))'
    ) AS idle_held_priced
FROM
(
    SELECT
        streaks.*,
        if(idles_now, min(if(is_current, start_ms, NULL)) OVER (PARTITION BY host, gpu, pid, created_ms), NULL) AS streak_since_ms,
        end_ms > newest_ms - 86400000 AS is_recent,
        toUInt32(arrayLast(
            number -> {price_starts:Array(Int64)}[number] < end_ms,
            cards.prices
        )) AS price
    FROM streaks
    LEFT JOIN ${PRICED_CARDS} AS cards
        ON cards.card_host = streaks.host AND cards.card_gpu = streaks.gpu
) AS streaks
GROUP BY
    streaks.host,
    streaks.gpu,
    streaks.pid,
    streaks.created_ms
