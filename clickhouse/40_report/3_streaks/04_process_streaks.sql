-- One row is one process on one card in the window: its runs, who it was at the last of them, and its idle episodes by the rule of
-- gua_report.idle_episodes. A run is (state, start, end, span of its first and last tick, observed time, GPU time [us], number of
-- its identity, state of the card, memory or -1, memory x time [KiB ms], time of known memory), times in ms; identities are (number,
-- (owner, program, container, pod, job, unit)). An episode is (start, end, idle time, [(time, GPU time attributed while the card was
-- idle-held, start) of its runs], time from its end to the next active tick, whatever lies between, or -1, span of its first tick).
-- Rows of pid 0 stand for hours of which runs were not kept.
CREATE OR REPLACE VIEW gua_report.process_streaks $ON_CLUSTER
$DEFINER
AS
SELECT
    host,
    gpu,
    pid,
    created_ms,
    runs,
    identities,
    arrayFirst(one -> one.1 = runs[-1].8, identities).2 AS identity,
    identity.1 AS owner,
    identity.2 AS program,
    multiIf(
        identity.5 IS NOT NULL, concat('job ', assumeNotNull(identity.5)),
        identity.4 IS NOT NULL, concat('pod ', assumeNotNull(identity.4)),
        identity.3 IS NOT NULL, concat('container ', assumeNotNull(identity.3)),
        identity.1 IS NOT NULL, concat('user ', assumeNotNull(identity.1)),
        concat('process ', toString(host), ' ', toString(pid), ' ', toString(created_ms))
    ) AS holder,
    is_kept,
    if(is_kept, runs[1].2, NULL) AS first_ms,
    if(is_kept, runs[-1].3, NULL) AS last_ms,
    arrayMap(
        each -> (
            each.1[1].2,
            each.1[-1].3,
            arraySum(each.1.6),
            arrayMap(run -> (run.6, if(run.9 = 2, run.7, 0), run.2), each.1),
            if(each.2 < 0, toInt64(-1), each.2 - each.1[-1].3),
            each.1[1].4
        ),
        arrayFilter(
            each -> notEmpty(each.1),
            arrayMap(
                (segment, next_active_ms) -> (arrayFilter(run -> run.1 = 2, segment), next_active_ms),
                segments,
                -- Of every segment, when the first active one after it begins: an active run always begins one.
                arrayPushBack(
                    arrayPopFront(
                        arrayReverseFill(
                            at_ms -> at_ms >= 0,
                            arrayMap(segment -> if(segment[1].1 = 1, segment[1].2, toInt64(-1)), segments)
                        )
                    ),
                    toInt64(-1)
                )
            )
        )
    ) AS episodes
FROM
(
    SELECT
        host,
        gpu,
        pid,
        created_ms,
        max(state) > 0 AS is_kept,
        -- Arrays of numbers, each sorted by time: arrays of tuples take several times as long, and names many times the memory.
        groupArray(start_ms) AS unsorted_ms,
        arraySort(unsorted_ms) AS starts_ms,
        arraySort((one, by) -> by, groupArray(state), unsorted_ms) AS states,
        arraySort((one, by) -> by, groupArray(end_ms), unsorted_ms) AS ends_ms,
        arraySort((one, by) -> by, groupArray(first_span_ms), unsorted_ms) AS first_spans_ms,
        arraySort((one, by) -> by, groupArray(last_span_ms), unsorted_ms) AS last_spans_ms,
        arraySort((one, by) -> by, groupArray(observed_ms), unsorted_ms) AS observed,
        arraySort((one, by) -> by, groupArray(gpu_us), unsorted_ms) AS gpus_us,
        arraySort((one, by) -> by, groupArray(name), unsorted_ms) AS names,
        arraySort((one, by) -> by, groupArray(card_state), unsorted_ms) AS card_states,
        arraySort((one, by) -> by, groupArray(ifNull(toInt64(memory_bytes), toInt64(-1))), unsorted_ms) AS memories,
        arraySort((one, by) -> by, groupArray(kib_ms), unsorted_ms) AS kibs_ms,
        arraySort((one, by) -> by, groupArray(known_ms), unsorted_ms) AS knowns_ms,
        groupUniqArray((name, (owner, program, container_id, pod_uid, slurm_job_id, systemd_unit))) AS identities,
        arrayZip(states, starts_ms, ends_ms, first_spans_ms, last_spans_ms, observed, gpus_us, names, card_states, memories, kibs_ms, knowns_ms) AS runs,
        arraySplit(
            (run, before) -> run.1 = 1 OR run.2 - before.3 > 2 * toInt64(greatest(run.4, before.5)),
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
        FROM gua_report.process_runs(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)}, ticked = {ticked:Array(Int64)}, stored = {stored:UInt8})
    )
    GROUP BY
        host,
        gpu,
        pid,
        created_ms
)
