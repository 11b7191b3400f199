-- One row is one day of a host to merge. The table stores nothing.
CREATE TABLE IF NOT EXISTS gua.due_day_rollups $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host',
    day DateTime('UTC') COMMENT 'Start of the day',
    rollups UInt16 COMMENT 'Rolled-up hours of the day',
    rollups_written_ms UInt64 COMMENT 'Sum of the versions of these rollups [ms]'
)
ENGINE = Null
COMMENT 'Starts the merge of days; stores nothing'
;
-- One row is one past UTC day of a host whose rollups changed after its merge, the newest first, up to one batch.
CREATE OR REPLACE VIEW gua.due_days $ON_CLUSTER
$DEFINER
AS
WITH
    changed AS
    (
        SELECT day
        FROM
        (
            SELECT
                toStartOfDay(hour) AS day,
                toInt64(1) AS rollups,
                toUnixTimestamp64Milli(written) AS rollups_written_ms
            FROM gua.rollups${LOCAL} FINAL
            WHERE hour < toStartOfDay(now('UTC'))
            UNION ALL
            SELECT
                day,
                -toInt64(rollups) AS rollups,
                -toInt64(rollups_written_ms) AS rollups_written_ms
            FROM gua.process_days${LOCAL} FINAL
            WHERE gpu = ''
        )
        GROUP BY day
        HAVING sum(rollups) != 0 OR sum(rollups_written_ms) != 0
    )
SELECT
    host,
    day,
    sum(hours) AS rollups,
    sum(hours_written_ms) AS rollups_written_ms
FROM
(
    SELECT
        host,
        toStartOfDay(hour) AS day,
        toUInt16(1) AS hours,
        toUInt64(toUnixTimestamp64Milli(written)) AS hours_written_ms,
        toUInt16(0) AS merged,
        toUInt64(0) AS merged_written_ms
    FROM gua.rollups${LOCAL} FINAL
    WHERE toStartOfDay(hour) IN (SELECT day FROM changed)
    UNION ALL
    SELECT
        host,
        day,
        toUInt16(0) AS hours,
        toUInt64(0) AS hours_written_ms,
        rollups AS merged,
        rollups_written_ms AS merged_written_ms
    FROM gua.process_days${LOCAL} FINAL
    WHERE gpu = '' AND day IN (SELECT day FROM changed)
)
GROUP BY ALL
HAVING sum(hours) > 0 AND (sum(hours) != sum(merged) OR sum(hours_written_ms) != sum(merged_written_ms))
ORDER BY
    day DESC,
    host
LIMIT $DAYS_AT_ONCE
COMMENT 'Days to merge'
;
-- One row is one row for gua.process_days: a merged day, an empty row, or the marker row of the host. The join also finds old
-- rows without a new one: they keep their key with zeros, and so replace themselves.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.roll_up_days $ON_CLUSTER TO gua.process_days${LOCAL} $DEFINER
AS
WITH
    ${STATES},
    due AS
    (
        SELECT
            host,
            day,
            rollups,
            rollups_written_ms
        FROM gua.due_day_rollups
    ),
${PROCESS_DAY_ROWS}
SELECT
    host,
    gpu,
    pid,
    created_ms,
    day,
    start_ms,
    now64(3, 'UTC') AS written,
    present.rollups AS rollups,
    present.rollups_written_ms AS rollups_written_ms,
    made.* EXCEPT (host, gpu, pid, created_ms, day, start_ms)
FROM
(
    SELECT
        host,
        '' AS gpu,
        toUInt32(0) AS pid,
        toInt64(0) AS created_ms,
        day,
        toInt64(0) AS start_ms,
        rollups,
        rollups_written_ms
    FROM due
    UNION ALL
    SELECT
        host,
        gpu,
        pid,
        created_ms,
        day,
        start_ms,
        toUInt16(0) AS rollups,
        toUInt64(0) AS rollups_written_ms
    FROM gua.process_days${LOCAL}
    WHERE (host, day) IN (SELECT host, day FROM due) AND gpu != ''
) AS present
FULL OUTER JOIN process_day_rows AS made USING (host, gpu, pid, created_ms, day, start_ms)
COMMENT 'Merges the hours of due days'
