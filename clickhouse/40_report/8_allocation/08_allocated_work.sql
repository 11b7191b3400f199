-- One row is allocated GPU time by kind of work or served model ({by}) and by use. An allocation has the name with the most GPU time of
-- its ticks in the window; of equal ones the alphabetically last. It is NULL without a name.
CREATE OR REPLACE VIEW gua_report.allocated_work $ON_CLUSTER
$DEFINER
AS
WITH
    ${USES}
SELECT
    toNullable(toString(named.work)) AS name,
    USE_NAMES[intervals.use] AS use,
    sum(intervals.gpu_us) AS gpu_us
FROM ${INTERVALS_OF_ALLOCATIONS} AS intervals
LEFT JOIN
(
    SELECT
        host,
        source,
        allocation_id,
        toNullable(argMax(work_name, (ms, work_name))) AS work
    FROM
    (
        SELECT
            toString(host) AS host,
            toString(source) AS source,
            toString(allocation_id) AS allocation_id,
            toString(assumeNotNull(if({by:String} = 'kind', workload_kind, workload_model))) AS work_name,
            sum(ifNull(gpu_time_ms, 0)) AS ms
        FROM gua.allocation_ticks AS ticks FINAL
        WHERE if({by:String} = 'kind', workload_kind, workload_model) IS NOT NULL
            AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND toUnixTimestamp64Milli(ts) - ifNull(duration_ms, 0) < {until_ms:Int64}
            AND ${OF_HOSTS}
        GROUP BY ALL
    )
    GROUP BY ALL
) AS named
    ON named.host = toString(intervals.host)
    AND named.source = toString(intervals.source)
    AND named.allocation_id = toString(intervals.allocation_id)
WHERE intervals.source != ''
GROUP BY ALL
HAVING gpu_us > 0
ORDER BY
    name,
    use
