-- One row is one host and hour with card ticks in an insert.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.card_ticks_to_hour_marks $ON_CLUSTER TO gua.hour_marks${LOCAL} $DEFINER
AS
SELECT
    ${HOUR_MARK}
FROM gua.card_ticks${LOCAL}
GROUP BY
    host,
    hour
COMMENT 'Marks the hours of arriving card ticks'
;
-- One row is one host and hour with process ticks in an insert.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.process_ticks_to_hour_marks $ON_CLUSTER TO gua.hour_marks${LOCAL} $DEFINER
AS
SELECT
    ${HOUR_MARK}
FROM gua.process_ticks${LOCAL}
GROUP BY
    host,
    hour
COMMENT 'Marks the hours of arriving process ticks'
;
-- One row is one host and hour with allocation ticks in an insert.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.allocation_ticks_to_hour_marks $ON_CLUSTER TO gua.hour_marks${LOCAL} $DEFINER
AS
SELECT
    ${HOUR_MARK}
FROM gua.allocation_ticks${LOCAL}
GROUP BY
    host,
    hour
COMMENT 'Marks the hours of arriving ticks of allocations'
;
-- One row is one host and hour with ticks of allocation sources in an insert.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.allocation_source_ticks_to_hour_marks $ON_CLUSTER TO gua.hour_marks${LOCAL} $DEFINER
AS
SELECT
    ${HOUR_MARK}
FROM gua.allocation_source_ticks${LOCAL}
GROUP BY
    host,
    hour
COMMENT 'Marks the hours of arriving ticks of sources of allocations'
