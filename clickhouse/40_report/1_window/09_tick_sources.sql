-- One row is one source of allocations in one UTC hour, as in gua.hourly_sources, from the ticks of {tick_hours} in the window.
CREATE OR REPLACE VIEW gua_report.tick_sources $ON_CLUSTER
$DEFINER
AS
WITH
    source_spans AS
    (
        SELECT
            *,
            toUnixTimestamp64Milli(ts) AS end_ms,
            greatest(end_ms - assumeNotNull(duration_ms), {since_ms:Int64}) AS inside_since_ms,
            toInt64(greatest(least(end_ms, {until_ms:Int64}) - inside_since_ms, 0)) AS inside_ms
        FROM gua.allocation_source_ticks FINAL
        WHERE ${TICK_HOUR} IN {tick_hours:Array(Int64)}
            AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND ${OF_HOSTS}
            AND duration_ms > 0
            AND inside_ms > 0
    ),
${HOURLY_SOURCE_ROWS}
SELECT *
FROM hourly_source_rows
