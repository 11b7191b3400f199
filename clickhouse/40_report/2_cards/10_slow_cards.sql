-- One row is one card. known_ms is time with known clock reasons; heat_ms, power_cap_ms and hardware_ms are the parts of it slowed by
-- each. A tick may have several reasons, read at its end. Errors are those of ticks that end in the window. xid, row_remap and
-- recovery_action are the newest values.
CREATE OR REPLACE VIEW gua_report.slow_cards $ON_CLUSTER
$DEFINER
AS
SELECT
    toString(hours.host) AS host,
    toString(hours.gpu) AS gpu,
    any(cards.gpu_index) AS gpu_index,
    any(cards.model) AS model,
    sum(hours.observed_ms) AS observed_ms,
    sum(hours.clocks_ms) AS known_ms,
    sum(hours.heat_ms) AS heat_ms,
    sum(hours.power_cap_ms) AS power_cap_ms,
    sum(hours.hardware_ms) AS hardware_ms,
    sum(hours.slowed_ms) AS slowed_ms,
    sum(hours.xid_errors) AS xid_errors,
    argMaxIf(hours.xid, hours.xid_at_ms, hours.xid IS NOT NULL) AS xid,
    sum(hours.ecc_errors) AS ecc_errors,
    argMaxIf(hours.row_remap, hours.row_remap_at_ms, hours.row_remap IS NOT NULL) AS row_remap,
    argMaxIf(hours.recovery_action, hours.recovery_at_ms, hours.recovery_action IS NOT NULL) AS recovery_action
FROM ${HOURS_OF_CARDS} AS hours
LEFT JOIN ${CARD_MODELS} AS cards
    ON cards.host = hours.host AND cards.gpu = hours.gpu
GROUP BY ALL
