-- One row is one row for gua.card_intervals: a new interval, an empty row, or the marker row of the host. The join also finds old
-- rows without a new one: they keep their key with zeros, and so replace themselves.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.roll_up_card_intervals $ON_CLUSTER TO gua.card_intervals${LOCAL} $DEFINER
AS
WITH
    ${STATES},
    due AS
    (
        SELECT
            ${DUE_COLUMNS}
        FROM gua.process_intervals${LOCAL}
        WHERE gpu = ''
    ),
${DUE_SPANS},
${CARD_INTERVAL_ROWS}
SELECT
    host,
    gpu,
    hour,
    end_ms,
    now64(3, 'UTC') AS written,
    present.marks AS marks,
    present.fingerprint AS fingerprint,
    present.first_ms AS first_ms,
    made.* EXCEPT (host, gpu, hour, end_ms)
FROM
(
    SELECT
        host,
        '' AS gpu,
        hour,
        toInt64(0) AS end_ms,
        marks,
        fingerprint,
        first_ms
    FROM due
    UNION ALL
    SELECT
        host,
        gpu,
        hour,
        end_ms,
        toUInt64(0) AS marks,
        toUInt64(0) AS fingerprint,
        ${NO_TICK_MS} AS first_ms
    FROM gua.card_intervals${LOCAL}
    WHERE (host, hour) IN (SELECT host, hour FROM due) AND gpu != ''
) AS present
FULL OUTER JOIN card_interval_rows AS made USING (host, gpu, hour, end_ms)
COMMENT 'Rolls up intervals of cards of due hours'
