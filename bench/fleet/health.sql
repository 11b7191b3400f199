-- Clocks of cards in use at each reading, errors read once a minute, and activity.
INSERT INTO gua.card_ticks (
    host, gpu, ts,
    clock_reasons, xid_errors, ecc_errors, row_remap, recovery_action,
    sm_utilization, sm_occupancy, tensor_utilization, memory_bandwidth_utilization
)
SELECT
    host,
    gpu,
    ts,
    multiIf(utilization = 0, 1, utilization > 8000 AND cityHash64(gpu, ts) % 5 = 0, 4, cityHash64(gpu, ts) % 997 = 0, 32, 0),
    0,
    0,
    0,
    0,
    if(utilization = 0, 0, intDiv(utilization, 50) - cityHash64(gpu, ts, 1) % 20),
    if(utilization = 0, 0, intDiv(utilization, 120) - cityHash64(gpu, ts, 2) % 10),
    if(utilization = 0, 0, intDiv(utilization, 100) - cityHash64(gpu, ts, 3) % 10),
    if(utilization = 0, 0, intDiv(utilization, 150) - cityHash64(gpu, ts, 4) % 6)
FROM gua.card_ticks FINAL
WHERE utilization IS NOT NULL
