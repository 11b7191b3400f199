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
    SELECT
        host,
        pid,
        created_ms,
        is_kept,
        model,
        told_kind,
        told_model,
        prices,
        longest_ms,
        holding,
        owner,
        owner.number = newest.identity AS is_newest,
        -- Of nearly every process it is all of them.
        arrayFilter(run -> run.identity = owner.number, every_run) AS its_runs,
        arraySum(arrayMap(run -> if(run.card_state = ACTIVE, run.gpu_us, 0), its_runs)) AS part_active_us,
        arraySum(arrayMap(run -> if(run.card_state = IDLE_HELD, run.gpu_us, 0), its_runs)) AS part_idle_held_us,
        arraySum(arrayMap(run -> if(run.card_state = UNKNOWN, run.gpu_us, 0), its_runs)) AS part_unknown_us,
        arraySum(arrayMap(run -> if(run.card_state != TRULY_IDLE, run.observed_ms, 0), its_runs)) AS part_ms,
        its_runs[1].start_ms AS part_first_ms,
        its_runs[-1].end_ms AS part_last_ms,
        -- Price and state of the card as one number.
        if(empty(prices), [], arrayMap(run -> toUInt32(${PRICE_OF_RUN} * 8 + run.card_state), its_runs)) AS part_kinds,
        if(empty(prices), [], its_runs.gpu_us) AS part_us
    FROM
    (
        SELECT
            process.host AS host,
            pid,
            created_ms,
            identity,
            is_kept,
            models.model AS model,
            told.kind AS told_kind,
            told.model AS told_model,
            models.prices AS prices,
            process.runs AS every_run,
            identities,
            -- Of a process of which nothing else is known than that it was there, not 0.
            if(
                arrayExists(run -> run.state IN (ACTIVE, PROCESS_IDLE), every_run),
                arrayMax(arrayPushBack(streaks.idle_ms, toUInt64(0))),
                NULL
            ) AS longest_ms,
            every_run[-1] AS newest,
            newest.state = PROCESS_IDLE AS is_idle,
            arrayFilter(run -> run.end_ms > newest.end_ms - 86400000, every_run) AS last_day,
            if(
                is_kept AND last_ms = max(last_ms) OVER (PARTITION BY process.host, process.gpu),
                [(
                    toString(process.host),
                    toString(process.gpu),
                    pid,
                    created_ms,
                    (
                        identity.owner,
                        identity.program,
                        identity.container_id,
                        identity.pod_uid,
                        identity.slurm_job_id,
                        identity.systemd_unit
                    ),
                    newest.end_ms,
                    is_idle,
                    if(newest.memory_bytes < 0, NULL, toUInt64(newest.memory_bytes)),
                    if(is_idle, streaks[-1].start_ms, NULL),
                    if(is_idle, streaks[-1].idle_ms, NULL),
                    if(is_idle, streaks[-1].first_span_ms, NULL),
                    if(
                        is_idle,
                        arrayMax(
                            run -> if(
                                run.state IN (ACTIVE, PROCESS_IDLE) AND run.start_ms < streaks[-1].start_ms,
                                run.end_ms,
                                toInt64(0)
                            ),
                            every_run
                        ),
                        NULL
                    ),
                    first_ms,
                    if(
                        arrayExists(run -> run.state != PROCESS_UNKNOWN, last_day),
                        arraySum(arrayMap(
                            run -> if(
                                run.state = ACTIVE,
                                toUInt64(round(
                                    run.observed_ms
                                    * (run.end_ms - greatest(run.start_ms, newest.end_ms - 86400000))
                                    / greatest(run.end_ms - run.start_ms, 1)
                                )),
                                0
                            ),
                            last_day
                        )),
                        NULL
                    ),
                    arraySum(arrayMap(run -> if(run.card_state = IDLE_HELD, run.gpu_us, 0), every_run)),
                    arraySum(arrayMap(run -> if(run.card_state = IDLE_HELD, run.kib_ms, 0), every_run)),
                    arraySum(arrayMap(run -> if(run.card_state = IDLE_HELD, run.known_ms, 0), every_run)),
                    arrayMap(
                        price -> (
                            price,
                            arraySum(arrayMap(
                                run -> if(run.card_state = IDLE_HELD AND ${PRICE_OF_RUN} = price, run.gpu_us, 0),
                                every_run
                            ))
                        ),
                        prices
                    )
                )],
                []
            ) AS holding
        FROM gua_report.process_streaks(${WINDOW}) AS process
        LEFT JOIN
        (
            SELECT
                host,
                gpu,
                ifNull(cards.model, cards.name) AS model,
                ${CARD_PRICES} AS prices
            FROM gua.card_info AS cards FINAL
            WHERE {by:String} = 'model' OR notEmpty({price_models:Array(String)})
        ) AS models
            ON models.host = process.host AND models.gpu = process.gpu
        LEFT JOIN
        (
            -- What was declared or detected of a process, the newest of it.
            SELECT
                toString(host) AS of_host,
                pid AS of_pid,
                toUnixTimestamp64Milli(created) AS of_created_ms,
                toNullable(toString(argMaxIf(workload_kind, ts, workload_kind IS NOT NULL))) AS kind,
                toNullable(toString(argMaxIf(workload_model, ts, workload_model IS NOT NULL))) AS model
            FROM gua.process_ticks FINAL
            WHERE {by:String} IN ('kind', 'served-model')
                AND (workload_kind IS NOT NULL OR workload_model IS NOT NULL)
                AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
                AND toUnixTimestamp64Milli(ts) - ifNull(duration_ms, 0) < {until_ms:Int64}
                AND ${OF_HOSTS}
            GROUP BY
                of_host,
                of_pid,
                of_created_ms
        ) AS told
            ON of_host = toString(process.host) AND of_pid = process.pid AND of_created_ms = process.created_ms
    )
    ARRAY JOIN identities AS owner
)
GROUP BY
    name,
    program
HAVING active_us + idle_held_us + unknown_us > 0 OR notEmpty(holders)
