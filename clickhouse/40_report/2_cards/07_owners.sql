-- One row is one owner and program on cards that were not truly idle, in the time of one of the prices given, by its number, or
-- of none (0). gpu_us is attributed time; process_ms the plain sum of the processes' durations. What no listed process has a
-- part in is one row of kind unlisted: with it the rows sum to the hours of those cards, and is below 0 where they were given
-- more than there was. Many ticks are asked for in several questions, some hours of tick_hours each, and the answers add up;
-- counted hours (use_hourly) belong to one of them.
CREATE OR REPLACE VIEW gua_report.owners $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    hours AS
    (
        SELECT *
        FROM ${USED_ROWS}
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
    price,
    if(is_total, total_active_us - sum(part_active_us) OVER of_price, part_active_us) AS active_us,
    if(is_total, total_idle_held_us - sum(part_idle_held_us) OVER of_price, part_idle_held_us) AS idle_held_us,
    if(is_total, total_unknown_us - sum(part_unknown_us) OVER of_price, part_unknown_us) AS unknown_us,
    active_us + idle_held_us + unknown_us AS gpu_us,
    part_process_ms AS process_ms
FROM
(
    SELECT
        is_total,
        owner,
        program,
        arrayLast(number -> number <= priced_at.3, prices) AS price,
        toInt64(sumIf(us, NOT is_total AND state = ACTIVE)) AS part_active_us,
        toInt64(sumIf(us, NOT is_total AND state = IDLE_HELD)) AS part_idle_held_us,
        toInt64(sumIf(us, NOT is_total AND state = UNKNOWN)) AS part_unknown_us,
        toInt64(sumIf(us, is_total AND state = ACTIVE)) AS total_active_us,
        toInt64(sumIf(us, is_total AND state = IDLE_HELD)) AS total_idle_held_us,
        toInt64(sumIf(us, is_total AND state = UNKNOWN)) AS total_unknown_us,
        sum(ms) AS part_process_ms
    FROM
    (
        SELECT
            false AS is_total,
            owner,
            program,
            ${PRICED_AT} AS priced_at,
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
            priced_at,
            state
        UNION ALL
        SELECT
            false AS is_total,
            identity_owner AS owner,
            identity_program AS program,
            ${PRICED_AT} AS priced_at,
            identity_state AS state,
            sum(identity_gpu_time_ms) * 1000 AS us,
            sum(identity_duration_ms) AS ms
        FROM hours
        ARRAY JOIN
            identities.gpu AS gpu,
            identities.owner AS identity_owner,
            identities.program AS identity_program,
            identities.state AS identity_state,
            identities.gpu_time_ms AS identity_gpu_time_ms,
            identities.duration_ms AS identity_duration_ms
        GROUP BY
            owner,
            program,
            priced_at,
            state
        UNION ALL
        SELECT
            true AS is_total,
            CAST(NULL, 'LowCardinality(Nullable(String))') AS owner,
            CAST(NULL, 'LowCardinality(Nullable(String))') AS program,
            ${PRICED_AT} AS priced_at,
            toUInt8(least(state_code, UNKNOWN)) AS state,
            sum(gpu_us) AS us,
            toUInt64(0) AS ms
        FROM spans
        GROUP BY
            priced_at,
            state
        UNION ALL
        SELECT
            true AS is_total,
            CAST(NULL, 'LowCardinality(Nullable(String))') AS owner,
            CAST(NULL, 'LowCardinality(Nullable(String))') AS program,
            ${PRICED_AT} AS priced_at,
            each.1 AS state,
            sum(each.2) * 1000 AS us,
            toUInt64(0) AS ms
        FROM hours
        ARRAY JOIN
            cards.gpu AS gpu,
            arrayMap(
                (active_ms, held_ms, unknown_ms) -> [(ACTIVE, active_ms), (IDLE_HELD, held_ms), (UNKNOWN, unknown_ms)],
                cards.active_gpu_time_ms,
                cards.idle_held_gpu_time_ms,
                cards.unknown_gpu_time_ms
            ) AS every_state
        ARRAY JOIN every_state AS each
        GROUP BY
            priced_at,
            state
    ) AS every
    LEFT JOIN
    (
        SELECT
            toString(host) AS card_host,
            toString(gpu) AS card_gpu,
            ${CARD_PRICES} AS prices
        FROM gua.card_info AS cards FINAL
        WHERE notEmpty({price_models:Array(String)})
            AND ${OF_HOSTS}
    ) AS priced
        ON priced.card_host = every.priced_at.1 AND priced.card_gpu = every.priced_at.2
    GROUP BY
        is_total,
        owner,
        program,
        price
)
WINDOW of_price AS (PARTITION BY price)
QUALIFY active_us != 0 OR idle_held_us != 0 OR unknown_us != 0
