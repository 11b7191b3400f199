-- One row is one hour of the day, in the given zone, and one state. A tick belongs to the hour of its end less 1 ms.
CREATE OR REPLACE VIEW gua_report.time_of_day $ON_CLUSTER
AS
SELECT
    toHour(fromUnixTimestamp(minute * 60), {timezone:String}) AS hour,
    ['active', 'idle-held', 'truly-idle', 'unknown'][least(state_code, 4)] AS state,
    sum(minute_card_ticks) AS card_ticks,
    round(sum(minute_gpu_ms), 3) AS gpu_ms
FROM
(
    -- By minutes first: the hour of 43,200 of them is found sooner than that of every tick of a month.
    SELECT
        intDiv(end_ms - 1, 60000) AS minute,
        state_code,
        count() AS minute_card_ticks,
        sum(gpu_ms) AS minute_gpu_ms
    FROM gua_report.spans(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)})
    GROUP BY
        minute,
        state_code
)
GROUP BY
    hour,
    state
ORDER BY
    hour,
    state
