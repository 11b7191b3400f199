-- One row is promised GPU time of one kind of work, or of one served model (by: kind, served-model), and of one use. An allocation's
-- kind and model are those that it had for the most of the GPU time that its ticks in the window tell, of as much the last by name;
-- NULL where they tell none.
CREATE OR REPLACE VIEW gua_report.promised_work $ON_CLUSTER
$DEFINER
AS
WITH
    ${USES}
SELECT
    toNullable(toString(told.work)) AS name,
    USE_NAMES[runs.use] AS use,
    sum(runs.gpu_us) AS gpu_us
FROM ${INTERVALS_OF_ALLOCATIONS} AS runs
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
) AS told
    ON told.host = toString(runs.host)
    AND told.source = toString(runs.source)
    AND told.allocation_id = toString(runs.allocation_id)
WHERE runs.source != ''
GROUP BY ALL
HAVING gpu_us > 0
ORDER BY
    name,
    use
