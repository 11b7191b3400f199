-- One row is one card and one metric of its performance counters: of the GPU time in which it was active in the window, how much the
-- metric is told of, that time x the metric [us/200], and how much of it the metric was low, below 10 %. What is not told has no row.
CREATE OR REPLACE VIEW gua_report.activity $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    hours AS
    (
        SELECT *
        FROM ${USED_ROWS}
            AND notEmpty(`activities.gpu`)
    )
SELECT
    toString(parts.host) AS host,
    toString(parts.gpu) AS gpu,
    any(cards.gpu_index) AS gpu_index,
    any(cards.model) AS model,
    parts.metric AS metric,
    sum(parts.part_told_us) AS told_us,
    sum(parts.part_weighted) AS weighted,
    sum(parts.part_low_us) AS low_us
FROM
(
    SELECT
        host,
        active_gpu AS gpu,
        active_metric AS metric,
        sum(hour_told_us) AS part_told_us,
        sum(hour_weighted) AS part_weighted,
        sum(hour_low_us) AS part_low_us
    FROM hours
    ARRAY JOIN
        activities.gpu AS active_gpu,
        activities.metric AS active_metric,
        activities.told_us AS hour_told_us,
        activities.weighted AS hour_weighted,
        activities.low_us AS hour_low_us
    GROUP BY
        host,
        gpu,
        metric
    UNION ALL
    SELECT
        host,
        gpu,
        toUInt8(each.1) AS metric,
        sum(gpu_us) AS part_told_us,
        sum(gpu_us * assumeNotNull(each.2)) AS part_weighted,
        sumIf(gpu_us, each.2 < LOW_ACTIVITY) AS part_low_us
    FROM gua_report.spans(${TICK_WINDOW})
    ARRAY JOIN
        arrayFilter(
            part -> isNotNull(part.2),
            arrayZip([1, 2, 3, 4], [sm_utilization, sm_occupancy, tensor_utilization, memory_bandwidth_utilization])
        ) AS each
    WHERE state_code = ACTIVE
    GROUP BY
        host,
        gpu,
        metric
) AS parts
LEFT JOIN
(
    SELECT
        host,
        gpu,
        gpu_index,
        ifNull(cards.model, cards.name) AS model
    FROM gua.cards AS cards
    WHERE ${OF_HOSTS}
) AS cards
    ON cards.host = parts.host AND cards.gpu = parts.gpu
GROUP BY
    host,
    gpu,
    metric
HAVING told_us > 0
ORDER BY
    host,
    gpu_index,
    gpu,
    metric
