-- One row is one owner (program, container, pod, job, host, model; identity: owner and program) of processes on cards. Times are by the
-- state of the card; a truly-idle one is held by nobody. A session is one process. longest_idle_ms is an episode of a process
-- that had that name at its last run; NULL where no runs were kept, or nothing is known of what they did. holders are its processes
-- that the newest tick with processes of their card lists: (host, gpu, pid, created, identity, tick, whether idle, memory, idle
-- since, idle time, span of the first tick of that, until when it was known before what it did or 0, when it was first listed, active
-- time in the 24 h before, and of the time on an idle-held card GPU time, memory x time [KiB ms] and the time of which that is known).
CREATE OR REPLACE VIEW gua_report.who $ON_CLUSTER
$DEFINER
AS
SELECT
    multiIf(
        {by:String} IN ('owner', 'identity'), who.2.1,
        {by:String} = 'program', who.2.2,
        {by:String} = 'container', who.2.3,
        {by:String} = 'pod', who.2.4,
        {by:String} = 'job', who.2.5,
        {by:String} = 'host', toNullable(toString(host)),
        model
    ) AS name,
    if({by:String} = 'identity', who.2.2, NULL) AS program,
    sum(part_active_us) AS active_us,
    sum(part_idle_held_us) AS idle_held_us,
    sum(part_unknown_us) AS unknown_us,
    sum(part_ms) AS durations_ms,
    uniqExactIf((host, pid, created_ms), is_kept) AS sessions,
    minIfOrNull(part_first_ms, is_kept) AS first_ms,
    maxIfOrNull(part_last_ms, is_kept) AS last_ms,
    maxIfOrNull(longest_ms, is_kept AND is_newest) AS longest_idle_ms,
    groupArrayArray(if(is_newest, holding, [])) AS holders
FROM
(
    SELECT
        host,
        pid,
        created_ms,
        is_kept,
        model,
        longest_ms,
        holding,
        who,
        who.1 = newest.8 AS is_newest,
        -- Of nearly every process it is all of them.
        arrayFilter(run -> run.8 = who.1, every_run) AS its_runs,
        arraySum(arrayMap(run -> if(run.9 = 1, run.7, 0), its_runs)) AS part_active_us,
        arraySum(arrayMap(run -> if(run.9 = 2, run.7, 0), its_runs)) AS part_idle_held_us,
        arraySum(arrayMap(run -> if(run.9 = 4, run.7, 0), its_runs)) AS part_unknown_us,
        arraySum(arrayMap(run -> if(run.9 != 3, run.6, 0), its_runs)) AS part_ms,
        its_runs[1].2 AS part_first_ms,
        its_runs[-1].3 AS part_last_ms
    FROM
    (
        SELECT
            streaks.host AS host,
            pid,
            created_ms,
            identity,
            is_kept,
            models.model AS model,
            streaks.runs AS every_run,
            identities,
            -- Of a process of which nothing else is known than that it was there, not 0.
            if(arrayExists(one -> one.1 IN (1, 2), every_run), arrayMax(arrayPushBack(episodes.3, toUInt64(0))), NULL) AS longest_ms,
            every_run[-1] AS newest,
            newest.1 = 2 AS is_idle,
            arrayFilter(one -> one.3 > newest.3 - 86400000, every_run) AS last_day,
            if(
                is_kept AND last_ms = max(last_ms) OVER (PARTITION BY streaks.host, streaks.gpu),
                [(
                    toString(streaks.host),
                    toString(streaks.gpu),
                    pid,
                    created_ms,
                    identity,
                    newest.3,
                    is_idle,
                    if(newest.10 < 0, NULL, toUInt64(newest.10)),
                    if(is_idle, episodes[-1].1, NULL),
                    if(is_idle, episodes[-1].3, NULL),
                    if(is_idle, episodes[-1].6, NULL),
                    if(is_idle, arrayMax(one -> if(one.1 IN (1, 2) AND one.2 < episodes[-1].1, one.3, toInt64(0)), every_run), NULL),
                    first_ms,
                    if(
                        arrayExists(one -> one.1 != 3, last_day),
                        arraySum(arrayMap(
                            one -> if(
                                one.1 = 1,
                                toUInt64(round(one.6 * (one.3 - greatest(one.2, newest.3 - 86400000)) / greatest(one.3 - one.2, 1))),
                                0
                            ),
                            last_day
                        )),
                        NULL
                    ),
                    arraySum(arrayMap(one -> if(one.9 = 2, one.7, 0), every_run)),
                    arraySum(arrayMap(one -> if(one.9 = 2, one.11, 0), every_run)),
                    arraySum(arrayMap(one -> if(one.9 = 2, one.12, 0), every_run))
                )],
                []
            ) AS holding
        FROM gua_report.process_streaks(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)}, ticked = {ticked:Array(Int64)}, stored = {stored:UInt8}) AS streaks
        LEFT JOIN
        (
            SELECT
                host,
                gpu,
                ifNull(cards.model, cards.name) AS model
            FROM gua.cards AS cards
            WHERE {by:String} = 'model'
        ) AS models
            ON models.host = streaks.host AND models.gpu = streaks.gpu
    )
    ARRAY JOIN identities AS who
)
GROUP BY
    name,
    program
HAVING active_us + idle_held_us + unknown_us > 0 OR notEmpty(holders)
