-- One row is one row for gua.allocation_intervals: a new interval, an empty row, or the marker row of the host. The join also finds old
-- rows without a new one: they keep their key with zeros, and so replace themselves.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.roll_up_allocations $ON_CLUSTER TO gua.allocation_intervals${LOCAL} $DEFINER
AS
WITH
    ${STATES},
    ${USES},
    due AS
    (
        SELECT
            ${DUE_COLUMNS}
        FROM gua.hourly_sources${LOCAL}
        WHERE source = ''
    ),
    checked_ticks AS
    (
        SELECT
            ${WHOLE_CHECKED_TICK}
        FROM gua.card_states${LOCAL}
        WHERE ${IN_DUE}
            AND allocation IS NOT NULL
            AND duration_ms > 0
    ),
    allocations AS
    (
        SELECT *
        FROM gua.allocation_ticks${LOCAL} FINAL
        WHERE ${IN_DUE}
    ),
${USE_TICKS},
${ALLOCATION_INTERVAL_ROWS}
SELECT
    host,
    gpu,
    source,
    allocation_id,
    hour,
    end_ms,
    start_ms,
    use,
    now64(3, 'UTC') AS written,
    present.marks AS marks,
    present.fingerprint AS fingerprint,
    present.first_ms AS first_ms,
    made.* EXCEPT (host, gpu, source, allocation_id, hour, end_ms, start_ms, use)
FROM
(
    SELECT
        host,
        '' AS gpu,
        '' AS source,
        '' AS allocation_id,
        hour,
        toInt64(0) AS end_ms,
        toInt64(0) AS start_ms,
        toUInt8(0) AS use,
        marks,
        fingerprint,
        first_ms
    FROM due
    UNION ALL
    SELECT
        host,
        gpu,
        source,
        allocation_id,
        hour,
        end_ms,
        start_ms,
        use,
        toUInt64(0) AS marks,
        toUInt64(0) AS fingerprint,
        ${NO_TICK_MS} AS first_ms
    FROM gua.allocation_intervals${LOCAL}
    WHERE (host, hour) IN (SELECT host, hour FROM due) AND gpu != ''
) AS present
FULL OUTER JOIN allocation_interval_rows AS made USING (host, gpu, source, allocation_id, hour, end_ms, start_ms, use)
COMMENT 'Rolls up allocations of due hours'
