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
    sum(quarters.card_ticks) AS card_ticks,
    sum(quarters.gpu_us) / 1000 AS gpu_ms
FROM
(
${QUARTERS}
) AS quarters
GROUP BY
    hour,
    state
ORDER BY
    hour,
    state
