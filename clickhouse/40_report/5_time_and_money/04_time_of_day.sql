-- One row is one hour of the day, in the given zone, and one state. A tick belongs to the quarter of an hour of its end less
-- 1 ms, or of the window's, if that is earlier: zones differ from UTC by whole quarters.
CREATE OR REPLACE VIEW gua_report.time_of_day $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES}
SELECT
    toHour(fromUnixTimestamp(quarter * 900), {timezone:String}) AS hour,
    STATE_NAMES[state_is] AS state,
    sum(quarter_ticks) AS card_ticks,
    sum(quarter_gpu_us) / 1000 AS gpu_ms
FROM
(
    SELECT
        intDiv(inside_until_ms - 1, 900000) AS quarter,
        toUInt8(least(state_code, UNKNOWN)) AS state_is,
        count() AS quarter_ticks,
        sum(gpu_us) AS quarter_gpu_us
    FROM gua_report.spans(${TICK_WINDOW})
    GROUP BY
        quarter,
        state_is
    -- ONLY with counted hours
    UNION ALL
${COUNTED_QUARTERS}
    -- END
)
GROUP BY
    hour,
    state
ORDER BY
    hour,
    state
