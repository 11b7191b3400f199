-- One row is one owner and program on cards that were not truly idle. gpu_ms is attributed time; unsplit_ms the plain sum
-- of the processes' durations. What no listed process has a part in is one row of kind unlisted; with it the rows sum
-- to the hours of those cards. A long window is asked for in parts, which add up: memory is that of one part's card ticks.
CREATE OR REPLACE VIEW gua_report.identities $ON_CLUSTER
AS
SELECT
    if(is_total, 'unlisted', 'listed') AS kind,
    owner,
    program,
    greatest(round(if(is_total, total_active - sum(listed_active) OVER (), listed_active), 3), 0.) AS active_ms,
    greatest(round(if(is_total, total_idle_held - sum(listed_idle_held) OVER (), listed_idle_held), 3), 0.) AS idle_held_ms,
    greatest(round(if(is_total, total_unknown - sum(listed_unknown) OVER (), listed_unknown), 3), 0.) AS unknown_ms,
    active_ms + idle_held_ms + unknown_ms AS gpu_ms,
    if(is_total, gpu_ms, toFloat64(durations_ms)) AS unsplit_ms
FROM
(
    SELECT
        false AS is_total,
        owner,
        program,
        sumIf(part_ms, state_is = 1) AS listed_active,
        sumIf(part_ms, state_is = 2) AS listed_idle_held,
        sumIf(part_ms, state_is = 4) AS listed_unknown,
        0. AS total_active,
        0. AS total_idle_held,
        0. AS total_unknown,
        sum(covered_ms) AS durations_ms
    FROM
    (
        SELECT
            process.owner AS owner,
            process.program AS program,
            card.state_is AS state_is,
            sum(process.attributed_ms * card.part) AS part_ms,
            sum(card.covered_ms) AS covered_ms
        FROM
        (
            -- One number as key is joined three times as fast as two names and a time. That two of the card ticks of a
            -- part (some 300,000) share one of 2^64 numbers has a chance of 2 in 10^9.
            SELECT
                cityHash64(cityHash64(host), cityHash64(gpu), toUnixTimestamp64Milli(ts)) AS card_tick,
                owner,
                program,
                assumeNotNull(gpu_time_ms) AS attributed_ms
            FROM gua.process_ticks FINAL
            WHERE ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
                AND ts <= fromUnixTimestamp64Milli({until_ms:Int64} + (SELECT toInt64(max(longest_ms)) FROM gua.card_seen), 'UTC')
                AND (empty({hosts:Array(String)}) OR has({hosts:Array(String)}, host))
                AND gpu_time_ms IS NOT NULL
        ) AS process
        INNER JOIN
        (
            SELECT
                cityHash64(cityHash64(host), cityHash64(gpu), end_ms) AS card_tick,
                inside_part AS part,
                toUInt32(inside_ms) AS covered_ms,
                least(state_code, 4) AS state_is
            FROM gua_report.spans(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)})
            WHERE state_code != 3
        ) AS card
            ON card.card_tick = process.card_tick
        GROUP BY
            owner,
            program,
            state_is
    )
    GROUP BY
        owner,
        program
    UNION ALL
    SELECT
        true AS is_total,
        CAST(NULL, 'LowCardinality(Nullable(String))') AS owner,
        CAST(NULL, 'LowCardinality(Nullable(String))') AS program,
        0. AS listed_active,
        0. AS listed_idle_held,
        0. AS listed_unknown,
        sumIf(gpu_ms, state_code = 1) AS total_active,
        sumIf(gpu_ms, state_code = 2) AS total_idle_held,
        sumIf(gpu_ms, state_code >= 4) AS total_unknown,
        0 AS durations_ms
    FROM gua_report.spans(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)})
)
QUALIFY gpu_ms > 0
