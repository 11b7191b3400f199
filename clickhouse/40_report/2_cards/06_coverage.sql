-- One row: how much of the expected GPU time was observed, and the effective window.
CREATE OR REPLACE VIEW gua_report.coverage $ON_CLUSTER
$DEFINER
AS
SELECT
    cards,
    expected_gpu_ms,
    observed_gpu_ms,
    unobserved_gpu_ms,
    ratio,
    gaps,
    effective_since_ms,
    effective_until_ms
FROM gua_report.overview(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)}, ticked = {ticked:Array(Int64)}, stored = {stored:UInt8})
WHERE is_total
