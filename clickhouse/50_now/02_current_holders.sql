-- One row is one process on one card at the card's newest tick, without ignored processes. Only the UTC days around that tick are read.
CREATE OR REPLACE VIEW gua.current_holders $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES}
SELECT
    process.host AS host,
    process.gpu AS gpu,
    card.gpu_index AS gpu_index,
    card.name AS name,
    process.ts AS ts,
    card.age_ms AS age_ms,
    card.stale AS stale,
    card.state AS card_state,
    process.pid AS pid,
    process.created AS created,
    process.owner AS owner,
    process.program AS program,
    process.type AS type,
    process.container_id AS container_id,
    process.pod_uid AS pod_uid,
    process.slurm_job_id AS slurm_job_id,
    process.systemd_unit AS systemd_unit,
    process.memory_bytes AS memory_bytes,
    process.utilization AS utilization,
    if(card.stale, 'unobserved', process.state) AS state,
    if(state = 'idle', fromUnixTimestamp64Milli(idle.since_ms, 'UTC'), NULL) AS idle_since,
    if(state = 'idle', idle.idle_duration_ms, NULL) AS idle_ms
FROM
(
    SELECT *
    FROM gua.process_states
    WHERE (host, gpu, ts) GLOBAL IN
        (
            SELECT
                host,
                gpu,
                max(last_seen)
            FROM gua.card_seen
            GROUP BY ALL
        )
        AND ifNull(type != 'ignored', true)
) AS process
INNER JOIN gua.current_cards AS card
    ON card.host = process.host AND card.gpu = process.gpu AND card.ts = process.ts
LEFT JOIN
(
    SELECT
        host,
        gpu,
        pid,
        created,
        -- Arrays of numbers, each sorted by time, as in gua.current_cards.
        groupArray(toUnixTimestamp64Milli(ts)) AS unsorted_ends_ms,
        arrayReverseSort(unsorted_ends_ms) AS ends_ms,
        arrayReverseSort((one, by) -> by, groupArray(duration_ms), unsorted_ends_ms) AS durations_ms,
        arrayReverseSort(
            (one, by) -> by,
            groupArray(toUInt8(indexOf(PROCESS_STATE_NAMES, state))),
            unsorted_ends_ms
        ) AS codes,
        -- The rule of gua_report.idle_streaks, from the newest tick back.
        arrayFirstIndex(
            (tick_end, span, code, later_end, later_span) -> code = ACTIVE
                OR later_end - later_span - tick_end > 2 * greatest(span, later_span),
            ends_ms,
            durations_ms,
            codes,
            arrayPushFront(arrayPopBack(ends_ms), ends_ms[1] + durations_ms[1]),
            arrayPushFront(arrayPopBack(durations_ms), durations_ms[1])
        ) AS other,
        if(other = 0, length(codes), toUInt64(other - 1)) AS streak_length,
        arraySlice(codes, 1, streak_length) AS streak_codes,
        arrayLastIndex(code -> code = PROCESS_IDLE, streak_codes) AS oldest,
        ends_ms[oldest] - durations_ms[oldest] AS since_ms,
        arraySum(
            (span, code) -> if(code = PROCESS_IDLE, span, 0),
            arraySlice(durations_ms, 1, streak_length),
            streak_codes
        ) AS idle_duration_ms
    FROM gua.process_states
    WHERE ${IN_NEWEST_DAYS}
    GROUP BY
        host,
        gpu,
        pid,
        created
) AS idle
    ON idle.host = process.host AND idle.gpu = process.gpu AND idle.pid = process.pid AND idle.created = process.created
COMMENT 'Processes on cards at the card''s newest tick'
