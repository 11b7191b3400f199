-- One row is one notice that was sent in the window, and what its holder did until the window's end. idle_before_gpu_ms is its idle GPU
-- time [ms] before the notice. used_ms is when it used a card again, released_ms when it had left all; NULL: not so far, or not observed.
CREATE OR REPLACE VIEW gua_report.notices $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    ${USES},
    on_cards AS
    (
        SELECT
            toString(host) AS host,
            toString(kind) AS kind,
            holder,
            toString(rule) AS rule,
            step,
            reminder,
            arrayJoin(any(cards)) AS card,
            if(kind = 'job', splitByChar('/', holder)[-1], holder) AS id,
            min(toUnixTimestamp64Milli(sent)) AS sent_ms,
            any(toString(state)) AS held_state,
            any(toNullable(toString(owner))) AS its_owner,
            any(toNullable(toString(program))) AS its_program,
            any(pid) AS its_pid,
            min(toUnixTimestamp64Milli(since)) AS since_ms,
            max(idle_ms) AS its_idle_ms,
            groupArray((toString(channel), toString(result), detail)) AS channels
        FROM gua.notices FINAL
        WHERE sent > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND sent <= fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
            AND ${OF_HOSTS}
            AND kind != 'digest'
        GROUP BY ALL
    ),
    presence AS
    (
        SELECT
            'idle-held' AS held_state,
            multiIf(
                ifNull(slurm_job_id, '') != '', ('job', toString(assumeNotNull(slurm_job_id))),
                ifNull(pod_uid, '') != '', ('pod', toString(assumeNotNull(pod_uid))),
                ('process', concat(host, ' ', toString(pid), ' ', toString(created_ms)))
            ) AS identity,
            toString(host) AS card_host,
            toString(gpu) AS card_gpu,
            start_ms,
            end_ms,
            state = PROCESS_IDLE AND card_state = IDLE_HELD AS is_idle,
            state = ACTIVE AS is_used,
            gpu_us
        FROM ${INTERVALS_OF_PROCESSES}
        UNION ALL
        SELECT
            'empty' AS held_state,
            multiIf(
                source = 'slurm', ('job', toString(allocation_id)),
                source = 'kubernetes', ('pod', toString(allocation_id)),
                ('allocation', concat(source, ' ', host, ' ', allocation_id))
            ) AS identity,
            toString(host) AS card_host,
            toString(gpu) AS card_gpu,
            start_ms,
            end_ms,
            use = EMPTY AS is_idle,
            use IN (USED, HELD) AS is_used,
            gpu_us
        FROM ${INTERVALS_OF_ALLOCATIONS}
        WHERE source != ''
        UNION ALL
        SELECT
            'no-process' AS held_state,
            ('card', concat(host, ' ', gpu)) AS identity,
            toString(host) AS card_host,
            toString(gpu) AS card_gpu,
            start_ms,
            end_ms,
            state = IDLE_HELD AS is_idle,
            state = ACTIVE AS is_used,
            gpu_us
        FROM ${INTERVALS_OF_CARDS}
        WHERE state != TRULY_IDLE
    ),
    newest AS
    (
        SELECT
            toString(host) AS card_host,
            toString(gpu) AS card_gpu,
            max(end_ms) AS card_last_ms,
            argMax(last_span_ms, end_ms) AS card_span_ms
        FROM ${INTERVALS_OF_CARDS}
        GROUP BY ALL
    )
SELECT
    on_cards.host AS host,
    on_cards.kind AS kind,
    on_cards.holder AS holder,
    on_cards.rule AS rule,
    on_cards.step AS step,
    on_cards.reminder AS reminder,
    any(on_cards.held_state) AS state,
    any(its_owner) AS owner,
    any(its_program) AS program,
    any(its_pid) AS pid,
    uniqExact(on_cards.card) AS cards,
    any(on_cards.sent_ms) AS sent_ms,
    any(on_cards.since_ms) AS since_ms,
    any(its_idle_ms) AS idle_ms,
    any(on_cards.channels) AS channels,
    sumIf(
        gpu_us / 1000 * (least(end_ms, on_cards.sent_ms) - start_ms) / greatest(end_ms - start_ms, 1),
        is_idle AND start_ms < on_cards.sent_ms
    ) AS idle_before_gpu_ms,
    sumIf(
        gpu_us / 1000 * (end_ms - greatest(start_ms, on_cards.sent_ms)) / greatest(end_ms - start_ms, 1),
        is_idle AND end_ms > on_cards.sent_ms
    ) AS idle_after_gpu_ms,
    minOrNullIf(greatest(start_ms, on_cards.sent_ms), is_used AND end_ms > on_cards.sent_ms) AS used_ms,
    max(end_ms) AS its_last_ms,
    if(min(card_last_ms - 3 * card_span_ms) > its_last_ms, greatest(its_last_ms, any(on_cards.sent_ms)), NULL) AS released_ms
FROM on_cards
LEFT JOIN presence
    ON presence.card_host = on_cards.card.host
    AND presence.card_gpu = on_cards.card.gpu
    AND presence.held_state = on_cards.held_state
    AND presence.identity = (on_cards.kind, on_cards.id)
LEFT JOIN newest
    ON newest.card_host = on_cards.card.host AND newest.card_gpu = on_cards.card.gpu
GROUP BY ALL
ORDER BY
    sent_ms,
    host,
    kind,
    holder,
    rule,
    step,
    reminder
;
-- One row is one notice and reminder of a holder that was sent before, or may have been.
CREATE OR REPLACE VIEW gua_report.sent_notices $ON_CLUSTER
$DEFINER
AS
SELECT
    toString(kind) AS kind,
    holder,
    toString(rule) AS rule,
    step,
    reminder,
    toNullable(toString(owner)) AS owner,
    toUnixTimestamp64Milli(sent) AS sent_ms,
    toString(channel) AS channel,
    toString(result) AS result,
    message,
    toUnixTimestamp64Milli(written) AS written_ms
FROM gua.notices FINAL
WHERE sent > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
;
-- One row is one run of gua notify that may send, or waits to.
CREATE OR REPLACE VIEW gua_report.notice_runs $ON_CLUSTER
$DEFINER
AS
SELECT
    run,
    host,
    pid,
    toUnixTimestamp64Milli(started) AS started_ms,
    toUnixTimestamp64Milli(until) AS until_ms
FROM gua.notice_runs FINAL
WHERE until > now64(3) - toIntervalHour(1)
