-- One row is one state.
CREATE OR REPLACE VIEW gua_report.headline $ON_CLUSTER
$DEFINER
AS
SELECT
    one.1 AS state,
    one.2 AS card_ticks,
    one.3 AS gpu_ms,
    one.4 AS share,
    one.5 AS equivalent_gpus
FROM gua_report.overview(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)}, ticked = {ticked:Array(Int64)}, stored = {stored:UInt8})
ARRAY JOIN states AS one
WHERE is_total
