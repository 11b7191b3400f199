-- One row is one row for gua.hourly_sources: a rolled-up source, an empty row, or the marker row of the host. The join also finds old
-- rows without a new one: they keep their key with zeros, and so replace themselves.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.roll_up_sources $ON_CLUSTER TO gua.hourly_sources${LOCAL} $DEFINER
AS
WITH
    due AS
    (
        SELECT
            host,
            hour,
            marks,
            fingerprint
        FROM gua.due_rollups
    ),
    source_spans AS
    (
        SELECT
            *,
            toUnixTimestamp64Milli(ts) AS end_ms,
            toInt64(assumeNotNull(duration_ms)) AS inside_ms,
            end_ms - inside_ms AS inside_since_ms
        FROM gua.allocation_source_ticks${LOCAL} FINAL
        WHERE ${IN_DUE}
            AND duration_ms > 0
    ),
${HOURLY_SOURCE_ROWS}
SELECT
    host,
    source,
    hour,
    now64(3, 'UTC') AS written,
    present.marks AS marks,
    present.fingerprint AS fingerprint,
    if(source = '', min(if(made.last_ms > 0, made.first_ms, ${NO_TICK_MS})) OVER (PARTITION BY host, hour), made.first_ms) AS first_ms,
    made.* EXCEPT (host, source, hour, first_ms)
FROM
(
    SELECT
        host,
        '' AS source,
        hour,
        marks,
        fingerprint
    FROM due
    UNION ALL
    SELECT
        host,
        source,
        hour,
        toUInt64(0) AS marks,
        toUInt64(0) AS fingerprint
    FROM gua.hourly_sources${LOCAL}
    WHERE (host, hour) IN (SELECT host, hour FROM due) AND source != ''
) AS present
FULL OUTER JOIN hourly_source_rows AS made USING (host, source, hour)
COMMENT 'Rolls up allocation sources of due hours'
