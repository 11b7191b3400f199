-- One row is one hour of the day, in the given zone, and one state. A tick belongs to the hour of its end less 1 ms.
CREATE OR REPLACE VIEW gua_report.time_of_day $ON_CLUSTER
AS
SELECT
    toHour(ts - toIntervalMillisecond(1), {timezone:String}) AS hour,
    state,
    count() AS card_ticks,
    round(sum(gpu_ms), 3) AS gpu_ms
FROM gua_report.spans(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)})
GROUP BY
    hour,
    state
ORDER BY
    hour,
    state
