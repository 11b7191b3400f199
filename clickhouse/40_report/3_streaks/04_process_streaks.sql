-- One row is one process on one card in the window: its runs, who it was at the last of them, and its idle streaks by the rule of
-- gua_report.idle_streaks. Of a run the identity is the number of one of identities, and memory is -1 where it is not known.
-- Rows of pid 0 stand for hours of which runs were not kept.
CREATE OR REPLACE VIEW gua_report.process_streaks $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES}
SELECT
    host,
    gpu,
    pid,
    created_ms,
    runs,
    identities,
    arrayFirst(each -> each.number = runs[-1].identity, identities).names AS identity,
    is_kept,
    if(is_kept, runs[1].start_ms, NULL) AS first_ms,
    if(is_kept, runs[-1].end_ms, NULL) AS last_ms,
    arrayFilter(
        idle -> notEmpty(idle),
        arrayMap(segment -> arrayFilter(run -> run.state = PROCESS_IDLE, segment), segments)
    ) AS idle_runs,
    CAST(
        arrayMap(
            idle -> (idle[1].start_ms, idle[-1].end_ms, arraySum(idle.observed_ms), idle[1].first_span_ms),
            idle_runs
        ),
        'Array(Tuple(start_ms Int64, end_ms Int64, idle_ms UInt64, first_span_ms UInt32))'
    ) AS streaks
FROM
(
    SELECT
        host,
        gpu,
        pid,
        created_ms,
        max(state) > NOT_KEPT AS is_kept,
        -- Arrays of numbers, each sorted by time: arrays of tuples take several times as long, and names many times the memory.
        groupArray(start_ms) AS unsorted_ms,
        arraySort(unsorted_ms) AS starts_ms,
        arraySort((each, by) -> by, groupArray(state), unsorted_ms) AS states,
        arraySort((each, by) -> by, groupArray(end_ms), unsorted_ms) AS ends_ms,
        arraySort((each, by) -> by, groupArray(first_span_ms), unsorted_ms) AS first_spans_ms,
        arraySort((each, by) -> by, groupArray(last_span_ms), unsorted_ms) AS last_spans_ms,
        arraySort((each, by) -> by, groupArray(observed_ms), unsorted_ms) AS observed,
        arraySort((each, by) -> by, groupArray(gpu_us), unsorted_ms) AS gpus_us,
        arraySort((each, by) -> by, groupArray(name), unsorted_ms) AS names,
        arraySort((each, by) -> by, groupArray(card_state), unsorted_ms) AS card_states,
        arraySort((each, by) -> by, groupArray(ifNull(toInt64(memory_bytes), toInt64(-1))), unsorted_ms) AS memories,
        arraySort((each, by) -> by, groupArray(kib_ms), unsorted_ms) AS kibs_ms,
        arraySort((each, by) -> by, groupArray(known_ms), unsorted_ms) AS knowns_ms,
        CAST(
            groupUniqArray((name, (owner, program, container_id, pod_uid, slurm_job_id, systemd_unit))),
            'Array(Tuple(
                number UInt64,
                names Tuple(
                    owner LowCardinality(Nullable(String)),
                    program LowCardinality(Nullable(String)),
                    container_id LowCardinality(Nullable(String)),
                    pod_uid LowCardinality(Nullable(String)),
                    slurm_job_id LowCardinality(Nullable(String)),
                    systemd_unit LowCardinality(Nullable(String))
                )
            ))'
        ) AS identities,
        CAST(
            arrayZip(
                states,
                starts_ms,
                ends_ms,
                first_spans_ms,
                last_spans_ms,
                observed,
                gpus_us,
                names,
                card_states,
                memories,
                kibs_ms,
                knowns_ms
            ),
            'Array(Tuple(
                state UInt8,
                start_ms Int64,
                end_ms Int64,
                first_span_ms UInt32,
                last_span_ms UInt32,
                observed_ms UInt64,
                gpu_us UInt64,
                identity UInt64,
                card_state UInt8,
                memory_bytes Int64,
                kib_ms UInt64,
                known_ms UInt64
            ))'
        ) AS runs,
        arraySplit(
            (run, before) -> run.state = ACTIVE OR ${GAP_BEFORE_RUN},
            runs,
            arrayPushFront(arrayPopBack(runs), runs[1])
        ) AS segments
    FROM
    (
        SELECT
            *,
            -- Of what is NULL the hash would be NULL; no name has a character 0.
            cityHash64(
                ifNull(owner, '\0'),
                ifNull(program, '\0'),
                ifNull(container_id, '\0'),
                ifNull(pod_uid, '\0'),
                ifNull(slurm_job_id, '\0'),
                ifNull(systemd_unit, '\0')
            ) AS name
        FROM gua_report.process_runs(${WINDOW})
    )
    GROUP BY
        host,
        gpu,
        pid,
        created_ms
)
