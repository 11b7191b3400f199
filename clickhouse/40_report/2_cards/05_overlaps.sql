-- One row is one host whose cards were observed for longer than time went by, holes of more than one interval left out: two agents,
-- two hosts of one name, or a clock that was set back.
-- Landing tables of whole seconds cut the times of ticks: what is less than a second is no second agent.
CREATE OR REPLACE VIEW gua_report.overlaps $ON_CLUSTER
$DEFINER
AS
SELECT
    host,
    max(card_observed_ms) AS observed_ms,
    max(card_elapsed_ms) AS elapsed_ms
FROM
(
    SELECT
        host,
        observed_ms AS card_observed_ms,
        elapsed_ms AS card_elapsed_ms
    FROM gua_report.overview(${WINDOW})
    WHERE NOT is_total AND card_observed_ms >= card_elapsed_ms + 1000
)
GROUP BY host
ORDER BY host
