-- One row is one card that was expected in the window.
CREATE OR REPLACE VIEW gua_report.cards $ON_CLUSTER
$DEFINER
AS
SELECT
    host,
    gpu,
    gpu_index,
    name,
    model,
    mig,
    parent,
    share,
    effective_since_ms AS expected_since_ms,
    effective_until_ms AS expected_until_ms,
    expected_gpu_ms,
    observed_gpu_ms,
    unobserved_gpu_ms,
    gaps,
    active_card_ticks,
    idle_held_card_ticks,
    truly_idle_card_ticks,
    unknown_card_ticks,
    active_gpu_ms,
    idle_held_gpu_ms,
    truly_idle_gpu_ms,
    unknown_gpu_ms
FROM gua_report.overview(${WINDOW})
WHERE NOT is_total
