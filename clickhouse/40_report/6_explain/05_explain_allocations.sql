-- One row is one part of a tick of a card with a time in (since_ms, until_ms]: what one allocation has of it, by what became of it, or
-- what nobody was promised or nobody knows (empty source). Ticks in which allocation was not looked at have none.
CREATE OR REPLACE VIEW gua_report.explain_allocations $ON_CLUSTER
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
            toUnixTimestamp64Milli(ts) AS end_ms,
            end_ms - duration_ms AS start_ms,
            start_ms AS inside_since_ms,
            end_ms AS inside_until_ms,
            toUInt64(gpu_time_ms) * 1000 AS gpu_us,
            gpu_time_ms,
            unallocated_gpu_time_ms,
            ${STATE_CODE} AS state_code
        FROM gua.card_states
        WHERE host = {host:String}
            AND gpu = {gpu:String}
            AND ${IN_WINDOW}
            AND allocation IS NOT NULL
            AND duration_ms > 0
    ),
    allocations AS
    (
        SELECT *
        FROM gua.allocation_ticks FINAL
        WHERE host = {host:String}
            AND gpu = {gpu:String}
            AND ${IN_WINDOW}
    ),
${USE_TICKS}
SELECT
    toUnixTimestamp64Milli(part.ts) AS ts_ms,
    toString(part.source) AS source,
    toString(part.allocation_id) AS allocation_id,
    toNullable(toString(part.owner)) AS owner,
    named.uid AS uid,
    toNullable(toString(named.kind)) AS kind,
    toNullable(toString(named.job_name)) AS job_name,
    toNullable(toString(named.pod_uid)) AS pod_uid,
    toNullable(toString(named.pod_name)) AS pod_name,
    toNullable(toString(named.pod_namespace)) AS pod_namespace,
    toUnixTimestamp64Milli(named.since) AS since_ms,
    toUnixTimestamp64Milli(named.until) AS until_ms,
    if(part.source = '', NULL, toString(part.relation)) AS relation,
    USE_NAMES[part.use_code] AS use,
    part.is_shared AS is_shared,
    toUInt64(part.part_until_ms - part.part_since_ms) AS duration_ms,
    intDiv(part.part_us, 1000) AS gpu_time_ms
FROM
(
    SELECT *
    FROM use_ticks
) AS part
LEFT JOIN allocations AS named
    ON named.ts = part.ts AND named.source = part.source AND named.allocation_id = part.allocation_id
-- By columns, not by what is made of them: with query_plan_merge_expressions the engine (26.7) does not end planning that.
ORDER BY
    part.ts,
    part.source = '',
    part.source,
    part.allocation_id,
    USE_NAMES[part.use_code]
