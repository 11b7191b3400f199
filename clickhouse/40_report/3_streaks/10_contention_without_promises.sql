-- One row is one host, and one (is_total) all of them, as in gua_report.contention: of a window in which nothing tells to whom cards are
-- promised. To plan that takes as long as all of this.
CREATE OR REPLACE VIEW gua_report.contention_without_promises $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    -- None is.
    5 AS PROMISED,
${CONTENTION_CARDS},
    changes AS
    (
        SELECT
            host,
            at_ms,
            state,
            cards,
            gpus,
            arrayLast(number -> {price_starts:Array(Int64)}[number] < until_ms, prices) AS price
        FROM
        (
            SELECT
                expected.host AS host,
                expected.prices AS prices,
                if(empty(observed.modes), [toInt64(expected.is_partitioned)], observed.modes) AS modes,
                length(modes) + 1 AS times,
                arrayConcat(
                    [expected.since_ms],
                    arrayMap(mode -> intDiv(mode, 2), arrayPopFront(modes)),
                    [expected.until_ms],
                    observed.starts_ms,
                    observed.ends_ms
                ) AS every_at_ms,
                arrayConcat(arrayWithConstant(times, toUInt8(NOT_KEPT)), observed.states, observed.states) AS every_state,
                arrayConcat(
                    arrayMap(
                        (mode, number) -> multiIf(mode % 2 = 0, toInt8(1), number = 1, toInt8(0), toInt8(-1)),
                        modes,
                        arrayEnumerate(modes)
                    ),
                    [toInt8(modes[-1] % 2 - 1)],
                    arrayWithConstant(length(observed.states), toInt8(1)),
                    arrayWithConstant(length(observed.states), toInt8(-1))
                ) AS every_card,
                arrayConcat(arrayWithConstant(times, 0.), observed.gpus, arrayMap(one -> -one, observed.gpus)) AS every_gpu,
                arrayConcat(arrayWithConstant(times, toInt64(0)), observed.untils_ms, observed.untils_ms) AS every_until_ms
            FROM expected
            LEFT JOIN
            (
                SELECT
                    toString(host) AS host,
                    toString(gpu) AS gpu,
                    arraySort(groupArray(start_ms * 2 + is_partitioned)) AS starts,
                    arrayFilter(
                        (one, before) -> one % 2 != before % 2,
                        starts,
                        arrayPushFront(arrayPopBack(starts), starts[1] + 1)
                    ) AS modes,
                    -- What rounding leaves between the ticks of a run is not observed either, and stands at its end.
                    groupArrayIf(start_ms, is_told) AS starts_ms,
                    groupArrayIf(start_ms + toInt64(observed_ms), is_told) AS ends_ms,
                    groupArrayIf(state, is_told) AS states,
                    groupArrayIf(gpu_us / 1000 / observed_ms, is_told) AS gpus,
                    groupArrayIf(end_ms, is_told) AS untils_ms
                FROM
                (
                    SELECT
                        *,
                        NOT is_partitioned AND state != UNKNOWN AS is_told
                    FROM gua_report.card_runs(${WINDOW})
                    WHERE state != NOT_KEPT
                )
                GROUP BY
                    host,
                    gpu
            ) AS observed
                ON observed.host = expected.host AND observed.gpu = expected.gpu
        )
        ARRAY JOIN
            every_at_ms AS at_ms,
            every_state AS state,
            every_card AS cards,
            every_gpu AS gpus,
            every_until_ms AS until_ms
    )
${CONTENTION}
