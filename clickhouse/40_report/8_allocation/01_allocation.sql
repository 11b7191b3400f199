-- One row is what became of GPU time in the window: of one owner by one source, or of nobody (empty source), by use, in the time of
-- one of the prices given, by its number, or of none (0). The uses of all rows sum to the observed time in which allocation was looked
-- at, to the microsecond; time in which it was not is in no row. is_shared: others were there besides the owner.
CREATE OR REPLACE VIEW gua_report.allocation $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    ${USES},
    hours AS
    (
        SELECT *
        FROM gua.host_hours FINAL
        WHERE ${USED_HOURS}
    ),
    looked_at AS
    (
        SELECT *
        FROM gua_report.spans(${TICK_WINDOW})
        WHERE allocation IS NOT NULL
    ),
    allocations AS
    (
        SELECT *
        FROM gua.allocation_ticks FINAL
        WHERE ${TICK_HOUR} IN {tick_hours:Array(Int64)}
            AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND ${OF_HOSTS}
    ),
${USE_TICKS}
SELECT
    source,
    owner,
    USE_NAMES[use_code] AS use,
    is_shared,
    arrayLast(number -> number <= priced_at.3, prices) AS price,
    sum(us) AS gpu_us
FROM
(
    SELECT
        toString(source) AS source,
        toNullable(toString(owner)) AS owner,
        use_code,
        is_shared,
        ${PRICED_AT} AS priced_at,
        sum(part_us) AS us
    FROM use_ticks
    GROUP BY
        source,
        owner,
        use_code,
        is_shared,
        priced_at
    UNION ALL
    SELECT
        toString(use_source) AS source,
        toNullable(toString(use_owner)) AS owner,
        use_code,
        use_is_shared AS is_shared,
        ${PRICED_AT} AS priced_at,
        sum(use_gpu_time_ms) * 1000 AS us
    FROM hours
    ARRAY JOIN
        use_runs.gpu AS gpu,
        use_runs.source AS use_source,
        use_runs.owner AS use_owner,
        use_runs.use AS use_code,
        use_runs.is_shared AS use_is_shared,
        use_runs.gpu_time_ms AS use_gpu_time_ms
    GROUP BY
        source,
        owner,
        use_code,
        is_shared,
        priced_at
) AS every
LEFT JOIN
(
    SELECT
        toString(host) AS card_host,
        toString(gpu) AS card_gpu,
        ${CARD_PRICES} AS prices
    FROM gua.card_info AS cards FINAL
    WHERE notEmpty({price_models:Array(String)})
        AND ${OF_HOSTS}
) AS priced
    ON priced.card_host = every.priced_at.1 AND priced.card_gpu = every.priced_at.2
GROUP BY
    source,
    owner,
    use_code,
    is_shared,
    price
HAVING gpu_us > 0
