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
FROM gua_report.overview(${WINDOW})
WHERE is_total
