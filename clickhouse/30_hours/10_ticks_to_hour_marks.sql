-- One row is one host and hour with card ticks in an insert.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.card_ticks_to_hour_marks $ON_CLUSTER TO gua.hour_marks${LOCAL} $DEFINER
AS
SELECT
    ${HOUR_MARK}
FROM gua.card_ticks${LOCAL}
GROUP BY
    host,
    hour
COMMENT 'Hours of inserted card ticks'
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
COMMENT 'Hours of inserted process ticks'
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
COMMENT 'Hours of inserted allocation ticks'
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
COMMENT 'Hours of inserted ticks of allocation sources'
