-- One row is one owner (program, container, pod, job, kind, served-model, host, model; identity: owner and program) of processes on
-- cards. Times are by the state of the card; a truly-idle one is held by nobody. A session is one process. longest_idle_ms is a streak
-- of a process that had that name at its last run; NULL where no runs were kept, or nothing is known of what they did. holders are its
-- processes that the newest tick with processes of their card lists: (host, gpu, pid, created, identity, tick, whether idle, memory,
-- idle since, idle time, span of the first tick of that, until when it was known before what it did or 0, when it was first listed,
-- active time in the 24 h before, and of the time on an idle-held card GPU time, memory x time [KiB ms], the time of which that is
-- known, and GPU time by price). priced is GPU time by price and state of the card; what no price given counts for is left out.
CREATE OR REPLACE VIEW gua_report.usage $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES}
SELECT
    multiIf(
        {by:String} IN ('owner', 'identity'), owner.names.owner,
        {by:String} = 'program', owner.names.program,
        {by:String} = 'container', owner.names.container_id,
        {by:String} = 'pod', owner.names.pod_uid,
        {by:String} = 'job', owner.names.slurm_job_id,
        {by:String} = 'kind', coalesce(told_kind, ${WORKLOAD_KIND}),
        {by:String} = 'served-model', told_model,
        {by:String} = 'host', toNullable(toString(host)),
        model
    ) AS name,
    if({by:String} = 'identity', owner.names.program, NULL) AS program,
    sum(part_active_us) AS active_us,
    sum(part_idle_held_us) AS idle_held_us,
    sum(part_unknown_us) AS unknown_us,
    sum(part_ms) AS process_ms,
    uniqExactIf((host, pid, created_ms), is_kept) AS sessions,
    minIfOrNull(part_first_ms, is_kept) AS first_ms,
    maxIfOrNull(part_last_ms, is_kept) AS last_ms,
    maxIfOrNull(longest_ms, is_kept AND is_newest) AS longest_idle_ms,
    groupArrayArray(if(is_newest, holding, [])) AS holders,
    CAST(
        arrayFilter(
            part -> part.1 > 0 AND part.2 != TRULY_IDLE,
            arrayMap(
                (kind, us) -> (intDiv(kind, 8), kind % 8, us),
                tupleElement(sumMap(part_kinds, part_us), 1),
                tupleElement(sumMap(part_kinds, part_us), 2)
            )
        ),
        'Array(Tuple(UInt32, UInt8, UInt64))'
    ) AS priced
FROM
(
${USAGE_ROWS}
)
GROUP BY
    name,
    program
HAVING active_us + idle_held_us + unknown_us > 0 OR notEmpty(holders)
