-- One row is one host with a tick after since_ms: how many of its cards are in which state at their newest tick.
CREATE OR REPLACE VIEW gua_report.current_cards $ON_CLUSTER
$DEFINER
AS
SELECT
    host,
    countIf(newest_state = 'active') AS active_cards,
    countIf(newest_state = 'idle-held') AS idle_held_cards,
    countIf(newest_state = 'truly-idle') AS truly_idle_cards,
    countIf(newest_state = 'unknown') AS unknown_cards
FROM
(
    SELECT
        toString(host) AS host,
        gpu,
        argMax(state, ts) AS newest_state
    FROM gua.card_states
    WHERE ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
        AND ${OF_HOSTS}
    GROUP BY
        host,
        gpu
)
GROUP BY host
ORDER BY host
