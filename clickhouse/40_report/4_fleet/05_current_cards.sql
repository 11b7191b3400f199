-- One row is one host with a tick after since_ms: its cards by state at their newest tick. allocated_cards are allocated, empty_cards
-- have an empty allocation, and source_cards have an allocation source. Partitioned GPUs are left out.
CREATE OR REPLACE VIEW gua_report.current_cards $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    ${USES}
SELECT
    host,
    countIf(newest.state = 'active') AS active_cards,
    countIf(newest.state = 'idle-held') AS idle_held_cards,
    countIf(newest.state = 'truly-idle') AS truly_idle_cards,
    countIf(newest.state = 'unknown') AS unknown_cards,
    countIf(newest.allocation = 'allocated') AS allocated_cards,
    countIf(arrayExists(relation -> ${USE_CODE} = EMPTY, relations)) AS empty_cards,
    countIf(newest.allocation IS NOT NULL) AS source_cards
FROM
(
    SELECT
        cards.host AS host,
        cards.newest AS newest,
        toUInt8(indexOf(STATE_NAMES, cards.newest.state)) AS state_code,
        allocations.relations AS relations
    FROM
    (
        SELECT
            toString(host) AS host,
            toString(gpu) AS gpu,
            CAST(
                argMax((ts, state, toNullable(toString(allocation))), ts),
                'Tuple(ts DateTime64(3, \'UTC\'), state String, allocation Nullable(String))'
            ) AS newest
        FROM gua.card_states
        WHERE ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND ${OF_HOSTS}
            AND (host, gpu) GLOBAL NOT IN
                (
                    SELECT
                        host,
                        gpu
                    FROM gua.card_info FINAL
                    WHERE ifNull(mig = 'parent', false)
                )
        GROUP BY ALL
    ) AS cards
    LEFT JOIN
    (
        SELECT
            toString(host) AS host,
            toString(gpu) AS gpu,
            ts,
            groupUniqArray(toString(relation)) AS relations
        FROM gua.allocation_ticks FINAL
        WHERE ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND ${OF_HOSTS}
            AND relation IS NOT NULL
            AND ifNull(until > ts, true)
        GROUP BY ALL
    ) AS allocations
        ON allocations.host = cards.host AND allocations.gpu = cards.gpu AND allocations.ts = cards.newest.ts
)
GROUP BY host
ORDER BY host
