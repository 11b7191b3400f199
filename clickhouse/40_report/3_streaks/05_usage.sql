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
    )
SELECT
    multiIf(
        {by:String} IN ('owner', 'identity'), days.owner,
        {by:String} = 'program', days.program,
        {by:String} = 'container', days.container_id,
        {by:String} = 'pod', days.pod_uid,
        {by:String} = 'job', days.slurm_job_id,
        {by:String} = 'kind', coalesce(work.kind, multiIf(
            days.program IS NULL, NULL,
            startsWith(days.program, 'VLLM::') OR days.program = 'vllm', 'vLLM',
            startsWith(days.program, 'sglang::') OR days.program = 'sglang', 'SGLang',
            startsWith(days.program, 'ollama'), 'Ollama',
            startsWith(days.program, 'llama-'), 'llama.cpp',
            startsWith(days.program, 'tritonserver'), 'Triton',
            startsWith(days.program, 'text-generation'), 'TGI',
            startsWith(days.program, 'jupyter'), 'Jupyter',
            startsWith(days.program, 'python'), 'Python',
            'other'
        )),
        {by:String} = 'served-model', work.model,
        {by:String} = 'host', toNullable(toString(days.host)),
        days.model
    ) AS name,
    if({by:String} = 'identity', days.program, NULL) AS program,
    sum(days.active_us) AS active_us,
    sum(days.idle_held_us) AS idle_held_us,
    sum(days.unknown_us) AS unknown_us,
    sum(days.held_ms) AS process_ms,
    uniqExact((days.host, days.pid, days.created_ms)) AS sessions,
    min(days.start_ms) AS first_ms,
    max(days.end_ms) AS last_ms,
    maxOrNullIf(days.longest_ms, is_newest AND is_known) AS longest_idle_ms,
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
        streaks.*,
        [streaks.active_us, streaks.idle_held_us, streaks.unknown_us] AS its_us,
        arrayCount(price_start_ms -> price_start_ms < streaks.end_ms, {price_starts:Array(Int64)}) AS period,
        -- Price and state of the card in one number.
        arrayMap(
            each -> toUInt32(arrayLast(number -> number <= period, cards.prices) * 8 + each),
            [ACTIVE, IDLE_HELD, UNKNOWN]
        ) AS price_states,
        cards.model AS model
    FROM
    (
        SELECT
            *,
            end_ms = max(end_ms) OVER of_process AS is_newest,
            -- The longest streak within a row, or one that ends in it.
            max(greatest(head_streak_ms, tail_idle_ms, longest_idle_ms)) OVER of_process AS longest_ms,
            max(known_until_ms) OVER of_process > 0 AS is_known
        FROM
        (
${PROCESS_STREAKS}
        )
        WINDOW of_process AS (PARTITION BY process)
    ) AS streaks
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
        ON cards.card_host = streaks.host AND cards.card_gpu = streaks.gpu
) AS days
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
    ON work.of_host = toString(days.host) AND work.of_pid = days.pid AND work.of_created_ms = days.created_ms
GROUP BY
    name,
    program
HAVING active_us + idle_held_us + unknown_us > 0
