-- One row is one reason for which card ticks are unknown.
CREATE OR REPLACE VIEW gua_report.unknown $ON_CLUSTER
AS
SELECT
    assumeNotNull(reason) AS reason,
    count() AS card_ticks,
    round(sum(gpu_ms), 3) AS gpu_ms
FROM gua_report.spans(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)})
WHERE state = 'unknown'
GROUP BY reason
ORDER BY
    gpu_ms DESC,
    reason
