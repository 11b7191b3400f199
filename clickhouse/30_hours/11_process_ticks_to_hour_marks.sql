-- One row is one host and hour for which an insert held process ticks.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.process_ticks_to_hour_marks $ON_CLUSTER TO gua.hour_marks${LOCAL} $DEFINER
AS
SELECT
    host,
    ${TICK_HOUR_START} AS hour,
    toUInt64(1) AS marks,
    now64(3, 'UTC') AS marked
FROM gua.process_ticks${LOCAL}
GROUP BY
    host,
    hour
COMMENT 'Marks the hours of arriving process ticks'
