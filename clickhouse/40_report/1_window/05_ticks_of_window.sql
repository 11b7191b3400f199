-- One row is one card in one UTC hour and one state, as in gua.hourly_cards, from the ticks of {tick_hours} in the window.
CREATE OR REPLACE VIEW gua_report.tick_cards $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
${WINDOW_SPANS},
    gpu_of AS
    (
        SELECT
            host,
            toString(gpu) AS gpu,
            toString(ifNull(parent, gpu)) AS whole
        FROM gua.card_info FINAL
        WHERE ${OF_HOSTS}
    ),
${HOURLY_CARD_ROWS}
SELECT *
FROM hourly_card_rows
;
-- One row is one interval of a card in one UTC hour, as in gua.card_intervals, from the ticks of {tick_hours} in the window.
CREATE OR REPLACE VIEW gua_report.tick_card_intervals $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
${WINDOW_SPANS},
${CARD_INTERVAL_ROWS}
SELECT *
FROM card_interval_rows
;
-- One row is one interval of a process in one UTC hour, as in gua.process_intervals, from the ticks of {tick_hours} in the window.
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
;
-- One row is one interval of an allocation in one UTC hour, as in gua.allocation_intervals, from the ticks of {tick_hours} in the window.
CREATE OR REPLACE VIEW gua_report.tick_allocation_intervals $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    ${USES},
    checked_ticks AS
    (
        SELECT
            host,
            gpu,
            ts,
            ${CUT_TICK},
            gpu_time_ms,
            unallocated_gpu_time_ms,
            ${STATE_CODE} AS state_code
        FROM gua.card_states
        WHERE ${IN_TICK_HOURS}
            AND inside_ms > 0
            AND allocation IS NOT NULL
    ),
    allocations AS
    (
        SELECT *
        FROM gua.allocation_ticks FINAL
        WHERE ${IN_TICK_HOURS}
    ),
${USE_TICKS},
${ALLOCATION_INTERVAL_ROWS}
SELECT *
FROM allocation_interval_rows
;
-- One row is one allocation source in one UTC hour, as in gua.hourly_sources, from the ticks of {tick_hours} in the window.
CREATE OR REPLACE VIEW gua_report.tick_sources $ON_CLUSTER
$DEFINER
AS
WITH
    source_spans AS
    (
        SELECT
            *,
            toUnixTimestamp64Milli(ts) AS end_ms,
            greatest(end_ms - assumeNotNull(duration_ms), {since_ms:Int64}) AS inside_since_ms,
            toInt64(greatest(least(end_ms, {until_ms:Int64}) - inside_since_ms, 0)) AS inside_ms
        FROM gua.allocation_source_ticks FINAL
        WHERE ${IN_TICK_HOURS}
            AND duration_ms > 0
            AND inside_ms > 0
    ),
${HOURLY_SOURCE_ROWS}
SELECT *
FROM hourly_source_rows
