-- One row: how much of the expected GPU time was observed, and the effective window: the window clipped to the first and
-- last expected moment of any card.
CREATE OR REPLACE VIEW gua_report.coverage $ON_CLUSTER
AS
SELECT
    sum(expected_gpu_ms) AS expected_gpu_ms,
    sum(observed_gpu_ms) AS observed_gpu_ms,
    sum(unobserved_gpu_ms) AS unobserved_gpu_ms,
    if(expected_gpu_ms > 0, observed_gpu_ms / expected_gpu_ms, NULL) AS ratio,
    sum(gaps) AS gaps,
    count() AS cards,
    min(expected_since_ms) AS effective_since_ms,
    max(expected_until_ms) AS effective_until_ms
FROM gua_report.cards(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)})
