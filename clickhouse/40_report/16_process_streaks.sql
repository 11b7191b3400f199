-- One row is one process on one card in the window: its runs, who it was at the last of them, and its idle episodes by the rule of
-- gua_report.idle_episodes. A run is (state, start, end, span of its first and last tick, observed time, GPU time [us],
-- (owner, program, container, pod, job, unit), state of the card, memory, memory x time [KiB ms], time of known memory), times in
-- ms. An episode is (start, end, idle time, [(time, GPU time attributed while the card was idle-held) of its runs], time from
-- its end to the next active tick or -1, span of its first tick). Rows of pid 0 stand for hours of which runs were not kept.
CREATE OR REPLACE VIEW gua_report.process_streaks $ON_CLUSTER
$DEFINER
AS
SELECT
    host,
    gpu,
    pid,
    created_ms,
    runs,
    runs[-1].8 AS identity,
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
            arrayMap(run -> (run.6, if(run.9 = 2, run.7, 0)), each.1),
            if(each.2 < 0, toInt64(-1), each.2 - each.1[-1].3),
            each.1[1].4
        ),
        arrayFilter(
            each -> notEmpty(each.1),
            arrayMap(
                (segment, next) -> (
                    arrayFilter(run -> run.1 = 2, segment),
                    if(notEmpty(next) AND next[1].1 = 1, next[1].2, toInt64(-1))
                ),
                segments,
                arrayPushBack(arrayPopFront(segments), [])
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
        arraySort(
            run -> run.2,
            groupArray((
                state,
                start_ms,
                end_ms,
                first_span_ms,
                last_span_ms,
                observed_ms,
                gpu_us,
                (owner, program, container_id, pod_uid, slurm_job_id, systemd_unit),
                card_state,
                memory_bytes,
                kib_ms,
                known_ms
            ))
        ) AS runs,
        arraySplit(
            (run, before) -> run.1 = 1 OR run.2 - before.3 > 2 * toInt64(greatest(run.4, before.5)),
            runs,
            arrayPushFront(arrayPopBack(runs), runs[1])
        ) AS segments
    FROM gua_report.process_runs(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)}, ticked = {ticked:Array(Int64)}, stored = {stored:UInt8})
    GROUP BY
        host,
        gpu,
        pid,
        created_ms
)
