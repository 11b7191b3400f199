-- One row is one row of gua.host_hours as it should be written: the due hours, made from their ticks.
CREATE OR REPLACE VIEW gua_report.counted_hours $ON_CLUSTER
$DEFINER
AS
WITH
    -- Asked for once, before any tick is read: what arrives from then on leaves the hour due.
    (SELECT groupArray((host, hour, marks)) FROM gua_report.due_hours) AS due,
    (SELECT fingerprint FROM gua_report.rules_fingerprint) AS rules,
    due_rows AS
    (
        SELECT one.1 AS host, one.2 AS hour, one.3 AS marks
        FROM (SELECT arrayJoin(due) AS one)
    ),
    spans AS
    (
        SELECT
            host,
            gpu,
            toDateTime(intDiv(toUnixTimestamp64Milli(ts) - 1, 3600000) * 3600, 'UTC') AS hour,
            toUnixTimestamp64Milli(ts) AS end_ms,
            end_ms - duration_ms AS inside_since_ms,
            end_ms AS inside_until_ms,
            toInt64(duration_ms) AS inside_ms,
            1. AS inside_part,
            toUInt64(gpu_time_ms) * 1000 AS gpu_us,
            interval_ms,
            ${STATE_CODE} AS state_code
        FROM gua.card_states${LOCAL}
        WHERE intDiv(toUnixTimestamp64Milli(ts) - 1, 3600000) IN (SELECT intDiv(toUnixTimestamp(hour), 3600) FROM due_rows)
            AND (host, hour) IN (SELECT host, hour FROM due_rows)
            AND duration_ms > 0
    ),
    processes AS
    (
        SELECT *
        FROM gua.process_ticks${LOCAL} FINAL
        WHERE intDiv(toUnixTimestamp64Milli(ts) - 1, 3600000) IN (SELECT intDiv(toUnixTimestamp(hour), 3600) FROM due_rows)
            AND (host, toDateTime(intDiv(toUnixTimestamp64Milli(ts) - 1, 3600000) * 3600, 'UTC')) IN (SELECT host, hour FROM due_rows)
            AND gpu_time_ms IS NOT NULL
    ),
${HOUR_STATES},
    card_rows AS
    (
        SELECT
            host,
            hour,
            arraySort(one -> one.1, groupArray((
                gpu,
                toUInt32(card_interval_ms),
                card_starts_ms,
                card_ends_ms,
                (active_ticks, idle_held_ticks, truly_idle_ticks, unknown_ticks),
                (intDiv(active_gpu_us, 1000), intDiv(idle_held_gpu_us, 1000), intDiv(truly_idle_gpu_us, 1000), intDiv(unknown_gpu_us, 1000)),
                (active_ms, idle_held_ms, truly_idle_ms, unknown_ms)
            ))) AS each,
            arrayUniq(each.2, each.3, each.4) = 1 AS are_alike,
            arraySort(groupArrayArray(arrayMap(one -> (gpu, one.1, one.2, intDiv(one.3, 1000), one.4), reasons))) AS whys
        FROM card_hour
        GROUP BY
            host,
            hour
    ),
    quarter_rows AS
    (
        SELECT
            host,
            hour,
            arrayMap(place -> toUInt32(arraySum(arrayMap(one -> if(one.1 = place, one.2, 0), sums))), range(16)) AS ticks_of,
            arrayMap(place -> toUInt64(arraySum(arrayMap(one -> if(one.1 = place, one.3, 0), sums))), range(16)) AS gpu_time_of
        FROM
        (
            SELECT
                host,
                hour,
                groupArray((place, place_ticks, place_gpu_ms)) AS sums
            FROM
            (
                SELECT
                    host,
                    hour,
                    intDiv(intDiv(end_ms - 1, 60000) % 60, 15) * 4 + least(state_code, 4) - 1 AS place,
                    count() AS place_ticks,
                    intDiv(sum(gpu_us), 1000) AS place_gpu_ms
                FROM spans
                GROUP BY
                    host,
                    hour,
                    place
            )
            GROUP BY
                host,
                hour
        )
    ),
    identity_rows AS
    (
        SELECT
            host,
            hour,
            arraySort(groupArray((gpu, owner, program, state, gpu_ms, covered))) AS each
        FROM
        (
            SELECT
                host,
                hour,
                gpu,
                owner,
                program,
                state,
                intDiv(sum(part_us), 1000) AS gpu_ms,
                toUInt64(sum(covered_ms)) AS covered
            FROM
            (
${IDENTITY_TICKS}
            )
            GROUP BY
                host,
                hour,
                gpu,
                owner,
                program,
                state
        )
        GROUP BY
            host,
            hour
    )
SELECT
    due_rows.host AS host,
    due_rows.hour AS hour,
    due_rows.marks AS marks,
    rules AS fingerprint,
    now64(3, 'UTC') AS written,
    if(empty(card_rows.each.1), toInt64(9e18), arrayMin(arrayMap(one -> one[1], card_rows.each.3))) AS first_ms,
    cityHash64(card_rows.each.1) AS cards_key,
    arrayMax(card_rows.each.2) AS interval_ms,
    if(card_rows.are_alike, card_rows.each.3[1], []) AS starts_ms,
    if(card_rows.are_alike, card_rows.each.4[1], []) AS ends_ms,
    quarter_rows.ticks_of AS quarter_ticks,
    quarter_rows.gpu_time_of AS quarter_gpu_time_ms,
    card_rows.each.1 AS `cards.gpu`,
    card_rows.each.2 AS `cards.interval_ms`,
    if(card_rows.are_alike, arrayMap(one -> CAST([], 'Array(Int64)'), card_rows.each.3), card_rows.each.3) AS `cards.starts_ms`,
    if(card_rows.are_alike, arrayMap(one -> CAST([], 'Array(Int64)'), card_rows.each.4), card_rows.each.4) AS `cards.ends_ms`,
    card_rows.each.5.1 AS `cards.active_ticks`,
    card_rows.each.5.2 AS `cards.idle_held_ticks`,
    card_rows.each.5.3 AS `cards.truly_idle_ticks`,
    card_rows.each.5.4 AS `cards.unknown_ticks`,
    card_rows.each.6.1 AS `cards.active_gpu_time_ms`,
    card_rows.each.6.2 AS `cards.idle_held_gpu_time_ms`,
    card_rows.each.6.3 AS `cards.truly_idle_gpu_time_ms`,
    card_rows.each.6.4 AS `cards.unknown_gpu_time_ms`,
    card_rows.each.7.1 AS `cards.active_ms`,
    card_rows.each.7.2 AS `cards.idle_held_ms`,
    card_rows.each.7.3 AS `cards.truly_idle_ms`,
    card_rows.each.7.4 AS `cards.unknown_ms`,
    card_rows.whys.1 AS `unknowns.gpu`,
    card_rows.whys.2 AS `unknowns.reason`,
    card_rows.whys.3 AS `unknowns.ticks`,
    card_rows.whys.4 AS `unknowns.gpu_time_ms`,
    card_rows.whys.5 AS `unknowns.duration_ms`,
    identity_rows.each.1 AS `identities.gpu`,
    identity_rows.each.2 AS `identities.owner`,
    identity_rows.each.3 AS `identities.program`,
    identity_rows.each.4 AS `identities.state`,
    identity_rows.each.5 AS `identities.gpu_time_ms`,
    identity_rows.each.6 AS `identities.duration_ms`
FROM due_rows
LEFT JOIN card_rows
    ON card_rows.host = due_rows.host AND card_rows.hour = due_rows.hour
LEFT JOIN quarter_rows
    ON quarter_rows.host = due_rows.host AND quarter_rows.hour = due_rows.hour
LEFT JOIN identity_rows
    ON identity_rows.host = due_rows.host AND identity_rows.hour = due_rows.hour
COMMENT 'Due hours, counted'
