-- One row is one interval of a card that looked busy: 30 min or more of consecutive active ticks. Utilization was at least 90 %, and SM
-- activity below 10 %. Any other tick ends it, also one with unknown values, and a hole as long as a tick. Times are those in the window;
-- owners and programs are all in the interval. Read from the ticks of {tick_hours}.
CREATE OR REPLACE VIEW gua_report.busy_with_few_sms $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
${WINDOW_SPANS},
    ticks AS
    (
        SELECT
            host,
            gpu,
            cityHash64(cityHash64(host), cityHash64(gpu), end_ms) AS card_tick,
            ifNull(state_code = ACTIVE AND sm_utilization < LOW_ACTIVITY AND busiest_utilization >= 9000, false) AS is_stuck,
            start_ms,
            end_ms,
            inside_since_ms,
            inside_until_ms,
            gpu_us,
            assumeNotNull(sm_utilization) AS sm,
            tensor_utilization AS tensor
        FROM spans
    ),
    holders AS
    (
        SELECT
            cityHash64(cityHash64(host), cityHash64(gpu), toUnixTimestamp64Milli(ts)) AS card_tick,
            groupUniqArray(ifNull(owner, '')) AS owners,
            groupUniqArray(ifNull(program, '')) AS programs
        FROM gua.process_ticks FINAL
        WHERE ${IN_TICK_HOURS}
            AND gpu_time_ms IS NOT NULL
            AND card_tick GLOBAL IN (SELECT card_tick FROM ticks WHERE is_stuck)
        GROUP BY card_tick
    )
SELECT
    toString(stuck_ticks.host) AS host,
    toString(stuck_ticks.gpu) AS gpu,
    cards.gpu_index AS gpu_index,
    cards.model AS model,
    each[1].inside_since_ms AS since_ms,
    each[-1].inside_until_ms AS until_ms,
    toUInt64(arraySum(each.inside_until_ms) - arraySum(each.inside_since_ms)) AS observed_ms,
    arraySum(each.gpu_us) AS gpu_us,
    arraySum(tick -> tick.gpu_us * tick.sm, each) AS sm_weighted,
    arraySum(tick -> if(tick.tensor IS NULL, 0, tick.gpu_us), each) AS tensor_us,
    arraySum(tick -> tick.gpu_us * ifNull(tick.tensor, 0), each) AS tensor_weighted,
    arraySort(arrayDistinct(arrayFlatten(each.owners))) AS owners,
    arraySort(arrayDistinct(arrayFlatten(each.programs))) AS programs
FROM
(
    SELECT
        host,
        gpu,
        CAST(
            arraySort(groupArrayIf((
                end_ms,
                start_ms,
                inside_since_ms,
                inside_until_ms,
                gpu_us,
                sm,
                tensor,
                holders.owners,
                holders.programs
            ), is_stuck)),
            'Array(Tuple(
                end_ms Int64,
                start_ms Int64,
                inside_since_ms Int64,
                inside_until_ms Int64,
                gpu_us UInt64,
                sm UInt8,
                tensor Nullable(UInt8),
                owners Array(String),
                programs Array(String)
            ))'
        ) AS every,
        -- Positions of these ticks among all ticks of the card: adjacent positions have no other tick between them.
        arraySort(groupArray(end_ms * 2 + is_stuck)) AS all_ticks,
        arrayFilter((position, tick) -> tick % 2 = 1, arrayEnumerate(all_ticks), all_ticks) AS positions,
        arraySplit(
            (tick, before, position, position_before) -> position > position_before + 1
                OR tick.start_ms - before.end_ms >= tick.end_ms - tick.start_ms,
            every,
            arrayPopBack(arrayPushFront(every, every[1])),
            positions,
            arrayPopBack(arrayPushFront(positions, positions[1]))
        ) AS pieces
    FROM ticks
    LEFT JOIN holders ON holders.card_tick = ticks.card_tick
    GROUP BY
        host,
        gpu
    HAVING notEmpty(every)
) AS stuck_ticks
ARRAY JOIN pieces AS each
LEFT JOIN ${CARD_MODELS} AS cards
    ON cards.host = stuck_ticks.host AND cards.gpu = stuck_ticks.gpu
WHERE observed_ms >= 1800000
ORDER BY
    observed_ms DESC,
    host,
    gpu,
    since_ms
