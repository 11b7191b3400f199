-- One row is what one owner's program, or Slurm job of it, took of one card: its GPU time in the window, and by ticks the largest
-- memory of all its processes on that card together, the one that 95 % of the time did not exceed, and the same of its busiest
-- process; p95_sm_utilization is of the card, whoever was on it, where its counters tell. A tick in which the memory of any of
-- them is not known counts in unknown_ms alone. Truly-idle cards are held by nobody, and ignored processes hold nothing. priced
-- is GPU time by the number of its price. Read from ticks: hours are those asked for.
CREATE OR REPLACE VIEW gua_report.right_size $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    spans AS
    (
        SELECT *
        FROM gua_report.spans(
            since_ms = {since_ms:Int64},
            until_ms = {until_ms:Int64},
            hosts = {hosts:Array(String)},
            tick_hours = {hours:Array(Int64)}
        )
    ),
    processes AS
    (
        SELECT *
        FROM gua.process_ticks FINAL
        WHERE ${TICK_HOUR} IN {hours:Array(Int64)}
            AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND ${OF_HOSTS}
            AND gpu_time_ms IS NOT NULL
    )
SELECT
    toString(taken.host) AS host,
    toString(taken.gpu) AS gpu,
    names.owner AS owner,
    names.program AS program,
    names.job AS job,
    taken.gpu_us AS gpu_us,
    taken.held_ms AS held_ms,
    taken.unknown_ms AS unknown_ms,
    taken.peak_bytes AS peak_bytes,
    taken.p95_bytes AS p95_bytes,
    taken.peak_utilization AS peak_utilization,
    taken.p95_utilization AS p95_utilization,
    taken.p95_sm_utilization AS p95_sm_utilization,
    taken.priced AS priced
FROM
(
    SELECT
        any(used.host) AS host,
        any(used.gpu) AS gpu,
        who,
        sum(part_us) AS gpu_us,
        sum(covered_ms) AS held_ms,
        sumIf(covered_ms, NOT is_known) AS unknown_ms,
        maxIfOrNull(memory_bytes, is_known) AS peak_bytes,
        if(peak_bytes IS NULL, NULL, quantileExactWeightedIf(0.95)(memory_bytes, covered_ms, is_known)) AS p95_bytes,
        max(utilization) AS peak_utilization,
        if(
            peak_utilization IS NULL,
            NULL,
            quantileExactWeightedIf(0.95)(ifNull(utilization, 0), covered_ms, utilization IS NOT NULL)
        ) AS p95_utilization,
        if(
            countIf(sm_utilization IS NOT NULL) = 0,
            NULL,
            quantileExactWeightedIf(0.95)(ifNull(sm_utilization, 0), covered_ms, sm_utilization IS NOT NULL)
        ) AS p95_sm_utilization,
        CAST(
            arrayMap(
                (price, us) -> (price, us),
                tupleElement(sumMapIf([price], [part_us], price > 0), 1),
                tupleElement(sumMapIf([price], [part_us], price > 0), 2)
            ),
            'Array(Tuple(UInt32, UInt64))'
        ) AS priced
    FROM
    (
        SELECT
            card.host AS host,
            card.gpu AS gpu,
            card.card AS card,
            process.who AS who,
            process.known AS is_known,
            process.memory AS memory_bytes,
            process.busiest AS utilization,
            if(
                card.part = 1,
                process.attributed_ms * 1000,
                toUInt64(round(process.attributed_ms * 1000 * card.part))
            ) AS part_us,
            card.covered_ms AS covered_ms,
            card.sm_utilization AS sm_utilization,
            arrayLast(
                number -> {price_starts:Array(Int64)}[number] <= card.hour_ms,
                priced.prices
            ) AS price
        FROM
        (
            -- Who it was stands as one number: a group for each process and tick is more than names in each would let fit.
            SELECT
                cityHash64(cityHash64(host), cityHash64(gpu), toUnixTimestamp64Milli(ts)) AS card_tick,
                sipHash128(tuple(owner, program, slurm_job_id)) AS who,
                sum(toUInt64(assumeNotNull(gpu_time_ms))) AS attributed_ms,
                countIf(memory_bytes IS NULL) = 0 AS known,
                sum(ifNull(memory_bytes, 0)) AS memory,
                max(processes.utilization) AS busiest
            FROM processes
            GROUP BY
                card_tick,
                who
            -- Of a month of eight cards still more than one question may hold in memory.
            SETTINGS max_bytes_before_external_group_by = 80000000
        ) AS process
        INNER JOIN
        (
            SELECT
                host,
                gpu,
                cityHash64(cityHash64(host), cityHash64(gpu)) AS card,
                cityHash64(cityHash64(host), cityHash64(gpu), end_ms) AS card_tick,
                intDiv(end_ms - 1, 3600000) * 3600000 AS hour_ms,
                inside_part AS part,
                toUInt64(inside_ms) AS covered_ms,
                sm_utilization
            FROM spans
            WHERE state_code != TRULY_IDLE
        ) AS card
            ON card.card_tick = process.card_tick
        LEFT JOIN
        (
            SELECT
                cityHash64(cityHash64(host), cityHash64(gpu)) AS card,
                ${CARD_PRICES} AS prices
            FROM gua.card_info AS cards FINAL
            WHERE notEmpty({price_models:Array(String)})
                AND ${OF_HOSTS}
        ) AS priced
            ON priced.card = card.card
    ) AS used
    GROUP BY
        card,
        who
) AS taken
INNER JOIN
(
    SELECT
        sipHash128(tuple(processes.owner, processes.program, processes.slurm_job_id)) AS who,
        any(processes.owner) AS owner,
        any(processes.program) AS program,
        any(processes.slurm_job_id) AS job
    FROM processes
    GROUP BY who
) AS names
    ON names.who = taken.who
