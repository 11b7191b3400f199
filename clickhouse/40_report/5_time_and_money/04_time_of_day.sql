-- One row is one hour of the day, in the given zone, and one state. A tick belongs to the quarter of an hour of its end less
-- 1 ms: zones differ from UTC by whole quarters.
CREATE OR REPLACE VIEW gua_report.time_of_day $ON_CLUSTER
$DEFINER
AS
SELECT
    toHour(fromUnixTimestamp(quarter * 900), {timezone:String}) AS hour,
    ['active', 'idle-held', 'truly-idle', 'unknown'][state_is] AS state,
    sum(quarter_card_ticks) AS card_ticks,
    sum(quarter_gpu_us) / 1000 AS gpu_ms
FROM
(
    SELECT
        intDiv(end_ms - 1, 900000) AS quarter,
        toUInt8(least(state_code, 4)) AS state_is,
        count() AS quarter_card_ticks,
        sum(gpu_us) AS quarter_gpu_us
    FROM gua_report.spans(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)}, ticked = {ticked:Array(Int64)})
    GROUP BY
        quarter,
        state_is
    UNION ALL
    SELECT
        intDiv(toInt64(toUnixTimestamp(hour)), 900) + intDiv(place, 4) AS quarter,
        toUInt8(place % 4 + 1) AS state_is,
        place_ticks AS quarter_card_ticks,
        place_gpu_time_ms * 1000 AS quarter_gpu_us
    FROM
    (
        SELECT
            hour,
            sumForEach(quarter_ticks) AS every_ticks,
            sumForEach(quarter_gpu_time_ms) AS every_gpu_time_ms
        FROM gua.host_hours FINAL
        WHERE {stored:UInt8}
            AND hour > toDateTime(greatest(intDiv({since_ms:Int64}, 1000) - 3600, 0), 'UTC')
            AND hour < toDateTime(least(intDiv({until_ms:Int64} + 999, 1000), 4294967295), 'UTC')
            AND intDiv(toUnixTimestamp(hour), 3600) NOT IN {ticked:Array(Int64)}
            AND (empty({hosts:Array(String)}) OR has({hosts:Array(String)}, host))
            -- An hour in which no card was read has no quarters.
            AND notEmpty(quarter_ticks)
        GROUP BY hour
    )
    ARRAY JOIN
        every_ticks AS place_ticks,
        every_gpu_time_ms AS place_gpu_time_ms,
        range(16) AS place
    WHERE place_ticks > 0
)
GROUP BY
    hour,
    state
ORDER BY
    hour,
    state
