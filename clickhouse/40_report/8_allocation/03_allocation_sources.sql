-- One row is one source of allocations of one host in the window: for how long it could be read or not, its newest tick, the newest of
-- those that failed (NULL: none), and why that one did.
CREATE OR REPLACE VIEW gua_report.allocation_sources $ON_CLUSTER
$DEFINER
AS
SELECT
    toString(host) AS host,
    toString(source) AS source,
    sum(part_ok_ms) AS ok_ms,
    sum(part_failed_ms) AS failed_ms,
    toNullable(toString(argMaxIf(part_reason, part_last_failed_ms, part_last_failed_ms > 0))) AS reason,
    max(part_last_ms) AS last_ms,
    nullIf(max(part_last_failed_ms), 0) AS last_failed_ms
FROM
(
    SELECT
        host,
        source,
        if(${SOURCE_IS_OK}, inside_ms, 0) AS part_ok_ms,
        if(${SOURCE_IS_OK}, 0, inside_ms) AS part_failed_ms,
        end_ms AS part_last_ms,
        if(${SOURCE_IS_OK}, toInt64(0), end_ms) AS part_last_failed_ms,
        reason AS part_reason
    FROM
    (
        SELECT
            *,
            toUnixTimestamp64Milli(ts) AS end_ms,
            toUInt64(greatest(
                least(end_ms, {until_ms:Int64}) - greatest(end_ms - assumeNotNull(duration_ms), {since_ms:Int64}),
                0
            )) AS inside_ms
        FROM gua.allocation_source_ticks FINAL
        WHERE ${TICK_HOUR} IN {tick_hours:Array(Int64)}
            AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND ${OF_HOSTS}
            AND duration_ms > 0
            AND inside_ms > 0
    )
    -- ONLY with counted hours
    UNION ALL
    SELECT
        host,
        source_name AS source,
        source_ok_ms AS part_ok_ms,
        source_failed_ms AS part_failed_ms,
        source_last_ms AS part_last_ms,
        source_last_failed_ms AS part_last_failed_ms,
        source_reason AS part_reason
    FROM
    (
        SELECT
            host,
            allocation_sources.source,
            allocation_sources.ok_ms,
            allocation_sources.failed_ms,
            allocation_sources.last_ms,
            allocation_sources.last_failed_ms,
            allocation_sources.reason
        FROM gua.host_hours FINAL
        WHERE ${USED_HOURS}
    )
    ARRAY JOIN
        allocation_sources.source AS source_name,
        allocation_sources.ok_ms AS source_ok_ms,
        allocation_sources.failed_ms AS source_failed_ms,
        allocation_sources.last_ms AS source_last_ms,
        allocation_sources.last_failed_ms AS source_last_failed_ms,
        allocation_sources.reason AS source_reason
    -- END
)
GROUP BY
    host,
    source
ORDER BY
    host,
    source
