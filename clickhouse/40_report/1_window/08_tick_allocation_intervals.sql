-- One row is an interval of an allocation in one UTC hour, as in gua.allocation_intervals, from the ticks of {tick_hours} in the window.
CREATE OR REPLACE VIEW gua_report.tick_allocation_intervals $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    ${USES},
    looked_at AS
    (
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
${ALLOCATION_INTERVAL_ROWS}
SELECT *
FROM allocation_interval_rows
