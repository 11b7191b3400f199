-- One row is a run of a card in the window: ticks in a row in one state, whole or partitioned, without a hole, within one UTC hour.
-- Of hours of which runs were not kept (state 0) there is one row with the idle-held GPU time of a card in them.
CREATE OR REPLACE VIEW gua_report.card_runs $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    spans AS
    (
        SELECT *
        FROM gua_report.spans(${TICK_WINDOW})
    ),
${CARD_RUN_ROWS}
SELECT
    host,
    gpu,
    hour,
    toUInt8(code % PARTITIONED) AS state,
    toBool(code >= PARTITIONED) AS is_partitioned,
    start_ms,
    end_ms,
    first_span_ms,
    last_span_ms,
    observed_ms,
    gpu_us,
    is_used
FROM
(
    SELECT
        host,
        gpu,
        hour,
        run_state AS code,
        run_start_ms AS start_ms,
        run_end_ms AS end_ms,
        run_first_span_ms AS first_span_ms,
        run_last_span_ms AS last_span_ms,
        run_ms AS observed_ms,
        run_gpu_us AS gpu_us,
        run_is_used AS is_used
    FROM card_run_rows
    -- ONLY with counted hours
    UNION ALL
    SELECT
        host,
        card_gpu AS gpu,
        hour,
        card_state AS code,
        card_start_ms AS start_ms,
        card_end_ms AS end_ms,
        card_first_span_ms AS first_span_ms,
        card_last_span_ms AS last_span_ms,
        if(card_ms = 0, toUInt64(card_end_ms - card_start_ms), card_ms) AS observed_ms,
        card_gpu_time_ms * 1000 AS gpu_us,
        card_is_used AS is_used
    FROM
    (
        SELECT
            host,
            hour,
            card_runs.gpu,
            card_runs.state,
            card_runs.start_ms,
            card_runs.end_ms,
            card_runs.first_span_ms,
            card_runs.last_span_ms,
            card_runs.duration_ms,
            card_runs.gpu_time_ms,
            card_runs.is_used
        FROM gua.host_hours FINAL
        WHERE ${USED_RUN_HOURS}
    )
    ARRAY JOIN
        card_runs.gpu AS card_gpu,
        card_runs.state AS card_state,
        card_runs.start_ms AS card_start_ms,
        card_runs.end_ms AS card_end_ms,
        card_runs.first_span_ms AS card_first_span_ms,
        card_runs.last_span_ms AS card_last_span_ms,
        card_runs.duration_ms AS card_ms,
        card_runs.gpu_time_ms AS card_gpu_time_ms,
        card_runs.is_used AS card_is_used
    UNION ALL
    SELECT
        host,
        card_gpu AS gpu,
        hour,
        toUInt8(NOT_KEPT) AS code,
        toInt64(0) AS start_ms,
        toInt64(0) AS end_ms,
        toUInt32(0) AS first_span_ms,
        toUInt32(0) AS last_span_ms,
        toUInt64(0) AS observed_ms,
        card_gpu_time_ms * 1000 AS gpu_us,
        false AS is_used
    FROM
    (
        SELECT
            host,
            hour,
            cards.gpu,
            cards.idle_held_gpu_time_ms
        FROM gua.host_hours FINAL
        WHERE ${USED_RUN_HOURS}
            AND empty(card_runs.state)
    )
    ARRAY JOIN
        cards.gpu AS card_gpu,
        cards.idle_held_gpu_time_ms AS card_gpu_time_ms
    WHERE card_gpu_time_ms > 0
    -- END
)
