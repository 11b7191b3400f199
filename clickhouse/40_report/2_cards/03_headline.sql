-- One row is one state.
CREATE OR REPLACE VIEW gua_report.headline $ON_CLUSTER
$DEFINER
AS
SELECT
    each.state AS state,
    each.card_ticks AS card_ticks,
    each.gpu_ms AS gpu_ms,
    each.share AS share,
    each.equivalent_gpus AS equivalent_gpus
FROM gua_report.overview(${WINDOW})
ARRAY JOIN CAST(
    states,
    'Array(Tuple(
        state String,
        card_ticks UInt64,
        gpu_ms Float64,
        share Nullable(Float64),
        equivalent_gpus Nullable(Float64)
    ))'
) AS each
WHERE is_total
