-- One row is one card and state, active or idle-held, with its GPU time in the window. sampled_us is the part with utilization samples,
-- idle_us the idle part of that. powered_us is the part of idle_us with power samples, idle_mj its energy. An active tick may have idle
-- seconds, as its state is that of its mean.
CREATE OR REPLACE VIEW gua_report.idle_time $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES}
SELECT
    toString(parts.host) AS host,
    toString(parts.gpu) AS gpu,
    any(cards.gpu_index) AS gpu_index,
    any(cards.model) AS model,
    STATE_NAMES[parts.state] AS state,
    sum(parts.gpu_us) AS gpu_us,
    sum(parts.sampled_us) AS sampled_us,
    sum(parts.idle_us) AS idle_us,
    sum(parts.powered_us) AS powered_us,
    sum(parts.idle_mj) AS idle_mj
FROM ${HOURS_OF_CARDS} AS parts
LEFT JOIN ${CARD_MODELS} AS cards
    ON cards.host = parts.host AND cards.gpu = parts.gpu
WHERE parts.state IN (ACTIVE, IDLE_HELD)
GROUP BY
    host,
    gpu,
    parts.state
HAVING gpu_us > 0
ORDER BY
    host,
    gpu_index,
    gpu,
    parts.state
