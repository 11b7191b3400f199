-- One row is one card and one metric of its performance counters. known_us is active GPU time with a known value, weighted that time x
-- value [us/200], low_us its part below 10 %. A metric without values has no row.
CREATE OR REPLACE VIEW gua_report.activity $ON_CLUSTER
$DEFINER
AS
SELECT
    toString(parts.host) AS host,
    toString(parts.gpu) AS gpu,
    any(cards.gpu_index) AS gpu_index,
    any(cards.model) AS model,
    parts.metric AS metric,
    sum(parts.known_us) AS known_us,
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
LEFT JOIN ${CARD_MODELS} AS cards
    ON cards.host = parts.host AND cards.gpu = parts.gpu
GROUP BY ALL
HAVING known_us > 0
ORDER BY
    host,
    gpu_index,
    gpu,
    metric
;
-- One row is one owner and program on active cards with known SM activity: attributed GPU time, and that time x the card's activity
-- [us/200]. tensor_us is the part with known tensor activity, low_us the part with few SMs (below 10 %). Processes on a shared card all
-- have the card's activity. Read from the ticks of {tick_hours}.
CREATE OR REPLACE VIEW gua_report.activity_owners $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
${WINDOW_SPANS},
${WINDOW_PROCESSES}
SELECT
    owner,
    program,
    sum(part_us) AS gpu_us,
    sum(part_us * sm) AS sm_weighted,
    sumIf(part_us, tensor IS NOT NULL) AS tensor_us,
    sum(part_us * ifNull(tensor, 0)) AS tensor_weighted,
    sumIf(part_us, sm < LOW_ACTIVITY) AS low_us
FROM
(
    SELECT
        process.owner AS owner,
        process.program AS program,
        if(
            card.part = 1,
            process.attributed_ms * 1000,
            toUInt64(round(process.attributed_ms * 1000 * card.part))
        ) AS part_us,
        card.sm AS sm,
        card.tensor AS tensor
    FROM
    (
        SELECT
            cityHash64(cityHash64(host), cityHash64(gpu), toUnixTimestamp64Milli(ts)) AS card_tick,
            owner,
            program,
            sum(toUInt64(assumeNotNull(gpu_time_ms))) AS attributed_ms
        FROM processes
        GROUP BY ALL
    ) AS process
    INNER JOIN
    (
        SELECT
            cityHash64(cityHash64(host), cityHash64(gpu), end_ms) AS card_tick,
            inside_part AS part,
            assumeNotNull(sm_utilization) AS sm,
            tensor_utilization AS tensor
        FROM spans
        WHERE state_code = ACTIVE AND sm_utilization IS NOT NULL
    ) AS card
        ON card.card_tick = process.card_tick
)
GROUP BY ALL
HAVING gpu_us > 0
