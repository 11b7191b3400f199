-- One row is one reason for which card ticks are unknown.
CREATE OR REPLACE VIEW gua_report.unknown $ON_CLUSTER
$DEFINER
AS
SELECT
    one.1 AS reason,
    one.2 AS card_ticks,
    one.3 AS gpu_ms
FROM gua_report.overview(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)}, ticked = {ticked:Array(Int64)}, stored = {stored:UInt8})
ARRAY JOIN reasons AS one
WHERE is_total
