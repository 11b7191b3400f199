-- One row is one owner and program on cards that were not truly idle. gpu_us is attributed time; process_ms the plain sum of
-- the processes' durations. What no listed process has a part in is one row of kind unlisted: with it the rows sum to the
-- hours of those cards, and is below 0 where they were given more than there was. Many ticks are asked for in several
-- questions, some hours of tick_hours each, and the answers add up; counted hours (use_hourly) belong to one of them.
CREATE OR REPLACE VIEW gua_report.owners $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    hours AS
    (
        SELECT *
        FROM gua.host_hours FINAL
        WHERE ${USED_HOURS}
    ),
    spans AS
    (
        SELECT *
        FROM gua_report.spans(
            since_ms = {since_ms:Int64},
            until_ms = {until_ms:Int64},
            hosts = {hosts:Array(String)},
            tick_hours = {hours:Array(Int64)}
        )
    ),
    processes AS
    (
        SELECT *
        FROM gua.process_ticks FINAL
        WHERE ${TICK_HOUR} IN {hours:Array(Int64)}
            AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND ${OF_HOSTS}
            AND gpu_time_ms IS NOT NULL
    )
SELECT
    if(is_total, 'unlisted', 'listed') AS kind,
    owner,
    program,
    if(is_total, total_active_us - sum(part_active_us) OVER (), part_active_us) AS active_us,
    if(is_total, total_idle_held_us - sum(part_idle_held_us) OVER (), part_idle_held_us) AS idle_held_us,
    if(is_total, total_unknown_us - sum(part_unknown_us) OVER (), part_unknown_us) AS unknown_us,
    active_us + idle_held_us + unknown_us AS gpu_us,
    part_process_ms AS process_ms
FROM
(
    SELECT
        false AS is_total,
        owner,
        program,
        toInt64(sumIf(us, state = ACTIVE)) AS part_active_us,
        toInt64(sumIf(us, state = IDLE_HELD)) AS part_idle_held_us,
        toInt64(sumIf(us, state = UNKNOWN)) AS part_unknown_us,
        toInt64(0) AS total_active_us,
        toInt64(0) AS total_idle_held_us,
        toInt64(0) AS total_unknown_us,
        sum(ms) AS part_process_ms
    FROM
    (
        SELECT
            owner,
            program,
            state,
            sum(part_us) AS us,
            toUInt64(sum(covered_ms)) AS ms
        FROM
        (
${OWNER_TICKS}
        )
        GROUP BY
            owner,
            program,
            state
        UNION ALL
        SELECT
            identity_owner AS owner,
            identity_program AS program,
            identity_state AS state,
            sum(identity_gpu_time_ms) * 1000 AS us,
            sum(identity_duration_ms) AS ms
        FROM hours
        ARRAY JOIN
            identities.owner AS identity_owner,
            identities.program AS identity_program,
            identities.state AS identity_state,
            identities.gpu_time_ms AS identity_gpu_time_ms,
            identities.duration_ms AS identity_duration_ms
        GROUP BY
            owner,
            program,
            state
    )
    GROUP BY
        owner,
        program
    UNION ALL
    SELECT
        true AS is_total,
        CAST(NULL, 'LowCardinality(Nullable(String))') AS owner,
        CAST(NULL, 'LowCardinality(Nullable(String))') AS program,
        toInt64(0) AS part_active_us,
        toInt64(0) AS part_idle_held_us,
        toInt64(0) AS part_unknown_us,
        toInt64(sum(active_us)) AS total_active_us,
        toInt64(sum(idle_held_us)) AS total_idle_held_us,
        toInt64(sum(unknown_us)) AS total_unknown_us,
        toUInt64(0) AS part_process_ms
    FROM
    (
        SELECT
            sumIf(gpu_us, state_code = ACTIVE) AS active_us,
            sumIf(gpu_us, state_code = IDLE_HELD) AS idle_held_us,
            sumIf(gpu_us, state_code >= UNKNOWN) AS unknown_us
        FROM spans
        UNION ALL
        SELECT
            sum(arraySum(cards.active_gpu_time_ms)) * 1000 AS active_us,
            sum(arraySum(cards.idle_held_gpu_time_ms)) * 1000 AS idle_held_us,
            sum(arraySum(cards.unknown_gpu_time_ms)) * 1000 AS unknown_us
        FROM hours
    )
)
QUALIFY active_us != 0 OR idle_held_us != 0 OR unknown_us != 0
