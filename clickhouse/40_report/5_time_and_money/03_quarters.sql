-- One row is one quarter of an hour of UTC, as a number since 1970, and one state (1 to 4, in the order of the states). A tick
-- belongs to the quarter of its end less 1 ms, or of the window's, if that is earlier: zones differ from UTC by whole quarters.
CREATE OR REPLACE VIEW gua_report.quarters $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES}
SELECT
    quarter,
    state_is,
    quarter_ticks AS card_ticks,
    quarter_gpu_us AS gpu_us
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
