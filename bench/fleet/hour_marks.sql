INSERT INTO gua.hour_marks (host, hour, marks, marked)
SELECT
    host,
    hour,
    marks,
    toDateTime64(0, 3, 'UTC')
FROM gua.rollups FINAL
