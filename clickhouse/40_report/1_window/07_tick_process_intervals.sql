-- One row is an interval of a process in one UTC hour, as in gua.process_intervals, from the ticks of {tick_hours} in the window.
CREATE OR REPLACE VIEW gua_report.tick_process_intervals $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    ${ACTIVE_FROM},
${WINDOW_SPANS},
${WINDOW_PROCESSES},
${PROCESS_INTERVAL_ROWS}
SELECT *
FROM process_interval_rows
