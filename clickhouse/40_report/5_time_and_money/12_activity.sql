-- One row is one card and one metric of its performance counters: of the GPU time in which it was active in the window, how much the
-- metric is told of, that time x the metric [us/200], and how much of it the metric was low, below 10 %. What is not told has no row.
CREATE OR REPLACE VIEW gua_report.activity $ON_CLUSTER
$DEFINER
AS
SELECT
    toString(parts.host) AS host,
    toString(parts.gpu) AS gpu,
    any(cards.gpu_index) AS gpu_index,
    any(cards.model) AS model,
    parts.metric AS metric,
    sum(parts.known_us) AS told_us,
    sum(parts.known_weighted) AS weighted,
    sum(parts.known_low_us) AS low_us
FROM
(
    SELECT
        host,
        gpu,
        metric,
        known_us,
        known_weighted,
        known_low_us
    FROM ${HOURS_OF_CARDS}
    ARRAY JOIN
        activity_us AS known_us,
        activity_weighted AS known_weighted,
        activity_low_us AS known_low_us,
        arrayMap(place -> toUInt8(place), arrayEnumerate(activity_us)) AS metric
) AS parts
LEFT JOIN ${NAMED_CARDS} AS cards
    ON cards.host = parts.host AND cards.gpu = parts.gpu
GROUP BY ALL
HAVING told_us > 0
ORDER BY
    host,
    gpu_index,
    gpu,
    metric
