-- One row is one row for gua.hourly_cards: a rolled-up state, an empty row, or the marker row of the host. The join also finds old
-- rows without a new one: they keep their key with zeros, and so replace themselves.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.roll_up_cards $ON_CLUSTER TO gua.hourly_cards${LOCAL} $DEFINER
AS
WITH
    ${STATES},
    due AS
    (
        SELECT
            ${DUE_COLUMNS}
        FROM gua.card_intervals${LOCAL}
        WHERE gpu = ''
    ),
${DUE_SPANS},
    gpu_of AS
    (
        SELECT
            host,
            toString(gpu) AS gpu,
            toString(ifNull(parent, gpu)) AS whole
        FROM gua.card_info${LOCAL} FINAL
    ),
${HOURLY_CARD_ROWS}
SELECT
    host,
    gpu,
    hour,
    state,
    is_partitioned,
    now64(3, 'UTC') AS written,
    present.marks AS marks,
    present.fingerprint AS fingerprint,
    if(gpu = '', present.first_ms, made.first_ms) AS first_ms,
    made.* EXCEPT (host, gpu, hour, state, is_partitioned, first_ms)
FROM
(
    SELECT
        host,
        '' AS gpu,
        hour,
        toUInt8(0) AS state,
        false AS is_partitioned,
        marks,
        fingerprint,
        first_ms
    FROM due
    UNION ALL
    SELECT
        host,
        gpu,
        hour,
        state,
        is_partitioned,
        toUInt64(0) AS marks,
        toUInt64(0) AS fingerprint,
        ${NO_TICK_MS} AS first_ms
    FROM gua.hourly_cards${LOCAL}
    WHERE (host, hour) IN (SELECT host, hour FROM due) AND gpu != ''
) AS present
FULL OUTER JOIN hourly_card_rows AS made USING (host, gpu, hour, state, is_partitioned)
COMMENT 'Rolls up cards of due hours'
;
-- One row is one hour of a host whose rollup is complete in all tables.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.finish_rollups $ON_CLUSTER TO gua.rollups${LOCAL} $DEFINER
AS
SELECT
    host,
    hour,
    now64(3, 'UTC') AS written,
    max(cards.marks) AS marks,
    max(cards.fingerprint) AS fingerprint,
    min(if(gpu = '' OR cards.ticks > 0, cards.first_ms, ${NO_TICK_MS})) AS first_ms,
    sum(cards.ticks) AS ticks
FROM gua.hourly_cards${LOCAL} AS cards
GROUP BY ALL
HAVING countIf(gpu = '') > 0
COMMENT 'Completed rollups'
