-- One row is one quarter of an hour of UTC, as a number since 1970, and one state (1 to 4, in the order of the states). A tick belongs to
-- the quarter of its end less 1 ms, or of the window's end, if that is earlier: zones differ from UTC by whole quarters.
CREATE OR REPLACE VIEW gua_report.quarters $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES}
SELECT
    quarter,
    state_is,
    card_ticks,
    gpu_us
FROM
(
${QUARTERS}
)
