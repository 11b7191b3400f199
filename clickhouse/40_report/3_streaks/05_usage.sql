-- One row is one group of processes by {by}: owner, program, container, pod, job, kind, served-model, host, model, or identity (owner and
-- program). Times are by state of the card, without truly-idle. A session is one process. longest_idle_ms is the longest idle streak of a
-- process that had the name in its last interval; NULL if all its states are unknown. priced is GPU time by price number and state of the
-- card, without unpriced time.
CREATE OR REPLACE VIEW gua_report.usage $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    its_days AS
    (
        SELECT
            *,
            cityHash64(host, gpu, pid, created_ms) AS process
        FROM ${DAYS_OF_PROCESSES}
    ),
    -- One row is one process on a card with one set of names, in the period of one price. its_longest_ms is its longest idle streak in
    -- these rows, or one that ends in them.
    named AS
    (
        SELECT
            process,
            -- The hash of NULL is NULL; names contain no character 0.
            cityHash64(
                ifNull(days.owner, '\0'),
                ifNull(days.program, '\0'),
                ifNull(days.container_id, '\0'),
                ifNull(days.pod_uid, '\0'),
                ifNull(days.slurm_job_id, '\0'),
                ifNull(days.systemd_unit, '\0')
            ) AS who,
            arrayCount(price_start_ms -> price_start_ms < days.end_ms, {price_starts:Array(Int64)}) AS period,
            any(days.host) AS host,
            any(days.gpu) AS gpu,
            any(days.pid) AS pid,
            any(days.created_ms) AS created_ms,
            any(days.owner) AS owner,
            any(days.program) AS program,
            any(days.container_id) AS container_id,
            any(days.pod_uid) AS pod_uid,
            any(days.slurm_job_id) AS slurm_job_id,
            any(days.systemd_unit) AS systemd_unit,
            sum(days.active_us) AS its_active_us,
            sum(days.idle_held_us) AS its_idle_held_us,
            sum(days.unknown_us) AS its_unknown_us,
            sum(days.held_ms) AS its_ms,
            min(start_ms) AS its_first_ms,
            max(end_ms) AS its_last_ms,
            max(greatest(head_streak_ms, tail_idle_ms, longest_idle_ms)) AS its_longest_ms,
            max(known_until_ms) AS its_known_until_ms
        FROM
        (
${PROCESS_STREAKS}
        ) AS days
        GROUP BY ALL
    )
SELECT
    multiIf(
        {by:String} IN ('owner', 'identity'), named.owner,
        {by:String} = 'program', named.program,
        {by:String} = 'container', named.container_id,
        {by:String} = 'pod', named.pod_uid,
        {by:String} = 'job', named.slurm_job_id,
        {by:String} = 'kind', coalesce(work.kind, multiIf(
            named.program IS NULL, NULL,
            startsWith(named.program, 'VLLM::') OR named.program = 'vllm', 'vLLM',
            startsWith(named.program, 'sglang::') OR named.program = 'sglang', 'SGLang',
            startsWith(named.program, 'ollama'), 'Ollama',
            startsWith(named.program, 'llama-'), 'llama.cpp',
            startsWith(named.program, 'tritonserver'), 'Triton',
            startsWith(named.program, 'text-generation'), 'TGI',
            startsWith(named.program, 'jupyter'), 'Jupyter',
            startsWith(named.program, 'python'), 'Python',
            'other'
        )),
        {by:String} = 'served-model', work.model,
        {by:String} = 'host', toNullable(toString(named.host)),
        named.model
    ) AS name,
    if({by:String} = 'identity', named.program, NULL) AS program,
    sum(its_active_us) AS active_us,
    sum(its_idle_held_us) AS idle_held_us,
    sum(its_unknown_us) AS unknown_us,
    sum(its_ms) AS process_ms,
    uniqExact((named.host, named.pid, named.created_ms)) AS sessions,
    min(its_first_ms) AS first_ms,
    max(its_last_ms) AS last_ms,
    maxOrNullIf(longest_ms, is_newest AND is_known) AS longest_idle_ms,
    CAST(
        arrayFilter(
            part -> part.1 > 0 AND part.3 > 0,
            arrayMap(
                (kind, us) -> (intDiv(kind, 8), kind % 8, us),
                tupleElement(sumMap(price_states, its_us), 1),
                tupleElement(sumMap(price_states, its_us), 2)
            )
        ),
        'Array(Tuple(UInt32, UInt8, UInt64))'
    ) AS priced
FROM
(
    SELECT
        *,
        its_last_ms = max(its_last_ms) OVER (PARTITION BY process) AS is_newest,
        max(its_longest_ms) OVER (PARTITION BY process) AS longest_ms,
        max(its_known_until_ms) OVER (PARTITION BY process) > 0 AS is_known,
        [its_active_us, its_idle_held_us, its_unknown_us] AS its_us,
        -- Price and state of the card in one number.
        arrayMap(
            each -> toUInt32(arrayLast(number -> number <= period, cards.prices) * 8 + each),
            [ACTIVE, IDLE_HELD, UNKNOWN]
        ) AS price_states,
        cards.model AS model
    FROM named
    LEFT JOIN
    (
        SELECT
            host AS card_host,
            gpu AS card_gpu,
            ifNull(cards.model, cards.name) AS model,
            ${CARD_PRICES} AS prices
        FROM gua.card_info AS cards FINAL
        WHERE {by:String} = 'model' OR notEmpty({price_models:Array(String)})
    ) AS cards
        ON cards.card_host = named.host AND cards.card_gpu = named.gpu
) AS named
LEFT JOIN
(
    -- Newest declared or detected kind of work and served model of a process.
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
    GROUP BY ALL
) AS work
    ON work.of_host = toString(named.host) AND work.of_pid = named.pid AND work.of_created_ms = named.created_ms
GROUP BY
    name,
    program
HAVING active_us + idle_held_us + unknown_us > 0
