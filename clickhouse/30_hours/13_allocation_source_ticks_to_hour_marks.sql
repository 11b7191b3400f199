-- One row is one host and hour for which an insert held ticks of sources of allocations.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.allocation_source_ticks_to_hour_marks $ON_CLUSTER TO gua.hour_marks${LOCAL} $DEFINER
AS
SELECT
    host,
    ${TICK_HOUR_START} AS hour,
    toUInt64(1) AS marks,
    now64(3, 'UTC') AS marked
FROM gua.allocation_source_ticks${LOCAL}
GROUP BY
    host,
    hour
COMMENT 'Marks the hours of arriving ticks of sources of allocations'
