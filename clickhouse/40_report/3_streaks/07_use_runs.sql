-- One row is a run of one allocation on a card in the window, or of nobody (empty source): ticks in a row with one use, without a hole,
-- within one UTC hour. first_span_ms and last_span_ms are what it covers of its first and last tick.
CREATE OR REPLACE VIEW gua_report.use_runs $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    ${USES},
    looked_at AS
    (
        -- Not from gua_report.spans: to plan all that it tells takes longer than to plan the rest of this.
        SELECT
            host,
            gpu,
            ts,
            ${CUT_TICK},
            gpu_time_ms,
            unallocated_gpu_time_ms,
            ${STATE_CODE} AS state_code
        FROM gua.card_states
        WHERE ${TICK_HOUR} IN {tick_hours:Array(Int64)}
            AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND ${OF_HOSTS}
            AND inside_ms > 0
            AND allocation IS NOT NULL
    ),
    allocations AS
    (
        SELECT *
        FROM gua.allocation_ticks FINAL
        WHERE ${TICK_HOUR} IN {tick_hours:Array(Int64)}
            AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND ${OF_HOSTS}
    ),
${USE_TICKS},
${USE_RUN_ROWS}
SELECT
    host,
    gpu,
    hour,
    source,
    allocation_id,
    owner,
    use_code,
    USE_NAMES[use_code] AS use,
    is_shared,
    start_ms,
    end_ms,
    first_span_ms,
    last_span_ms,
    observed_ms,
    gpu_us
FROM
(
    SELECT
        host,
        gpu,
        hour,
        source,
        allocation_id,
        owner,
        run_use AS use_code,
        run_is_shared AS is_shared,
        run_start_ms AS start_ms,
        run_end_ms AS end_ms,
        run_first_span_ms AS first_span_ms,
        run_last_span_ms AS last_span_ms,
        run_ms AS observed_ms,
        run_gpu_us AS gpu_us
    FROM use_run_rows
    -- ONLY with counted hours
    UNION ALL
    SELECT
        host,
        use_gpu AS gpu,
        hour,
        use_source AS source,
        use_allocation_id AS allocation_id,
        use_owner AS owner,
        use_code,
        use_is_shared AS is_shared,
        use_start_ms AS start_ms,
        use_end_ms AS end_ms,
        use_first_span_ms AS first_span_ms,
        use_last_span_ms AS last_span_ms,
        use_duration_ms AS observed_ms,
        use_gpu_time_ms * 1000 AS gpu_us
    FROM
    (
        SELECT
            host,
            hour,
            use_runs.gpu,
            use_runs.source,
            use_runs.allocation_id,
            use_runs.owner,
            use_runs.use,
            use_runs.is_shared,
            use_runs.start_ms,
            use_runs.end_ms,
            use_runs.first_span_ms,
            use_runs.last_span_ms,
            use_runs.duration_ms,
            use_runs.gpu_time_ms
        FROM gua.host_hours FINAL
        WHERE ${USED_HOURS}
    )
    ARRAY JOIN
        use_runs.gpu AS use_gpu,
        use_runs.source AS use_source,
        use_runs.allocation_id AS use_allocation_id,
        use_runs.owner AS use_owner,
        use_runs.use AS use_code,
        use_runs.is_shared AS use_is_shared,
        use_runs.start_ms AS use_start_ms,
        use_runs.end_ms AS use_end_ms,
        use_runs.first_span_ms AS use_first_span_ms,
        use_runs.last_span_ms AS use_last_span_ms,
        use_runs.duration_ms AS use_duration_ms,
        use_runs.gpu_time_ms AS use_gpu_time_ms
    -- END
)
