-- One row is one hour of the day in {timezone} and one state. Offsets of time zones are whole quarters of an hour.
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
GROUP BY ALL
ORDER BY
    hour,
    state
;
-- One row is one state in an hour of the week (is_week; weekday 1 is Monday), or on a day, in {timezone}. An hour that the clocks skip
-- has no row, and a repeated hour has the ticks of both.
CREATE OR REPLACE VIEW gua_report.calendar $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES}
SELECT
    grouping(day) = 1 AS is_week,
    if(is_week, day_of_week, NULL) AS weekday,
    if(is_week, hour_of_day, NULL) AS hour,
    if(is_week, NULL, toString(day)) AS date,
    STATE_NAMES[state_is] AS state,
    sum(card_ticks) AS card_ticks,
    sum(gpu_us) / 1000 AS gpu_ms
FROM
(
    SELECT
        fromUnixTimestamp(quarter * 900) AS moment,
        toDayOfWeek(moment, 0, {timezone:String}) AS day_of_week,
        toHour(moment, {timezone:String}) AS hour_of_day,
        toDate(moment, {timezone:String}) AS day,
        state_is,
        card_ticks,
        gpu_us
    FROM
    (
${QUARTERS}
    )
)
GROUP BY GROUPING SETS
    (
        (day_of_week, hour_of_day, state_is),
        (day, state_is)
    )
ORDER BY
    is_week DESC,
    date,
    weekday,
    hour,
    state_is
