-- Idle seconds of cards in use, in whole periods of the driver's samples, and what power samples tell of them.
INSERT INTO gua.card_ticks (host, gpu, ts, idle_time_ms, idle_energy_mj, idle_energy_coverage_ms)
SELECT
    host,
    gpu,
    ts,
    intDiv(intDiv(utilization_coverage_ms * (10000 - utilization), 12000), 167) * 167 AS idle_ms,
    if(process_count_compute > 0, idle_ms * (119 + cityHash64(gpu, ts) % 9), NULL),
    if(process_count_compute > 0, idle_ms, NULL)
FROM gua.card_ticks FINAL
WHERE utilization IS NOT NULL
