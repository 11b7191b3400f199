-- One row is one reason for which card ticks are unknown.
CREATE OR REPLACE VIEW gua_report.unknown $ON_CLUSTER
$DEFINER
AS
SELECT
    each.reason AS reason,
    each.card_ticks AS card_ticks,
    each.gpu_ms AS gpu_ms
FROM gua_report.overview(${WINDOW})
ARRAY JOIN CAST(reasons, 'Array(Tuple(reason String, card_ticks UInt64, gpu_ms Float64))') AS each
WHERE is_total
