-- Slurm could be read in each tick.
INSERT INTO gua.allocation_source_ticks (host, ts, source, duration_ms, status)
SELECT DISTINCT
    host,
    ts,
    'slurm',
    duration_ms,
    'ok'
FROM gua.card_ticks FINAL
