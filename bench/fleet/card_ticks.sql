INSERT INTO gua.card_ticks
(
    host, gpu, ts, duration_ms, gpu_time_ms, utilization, utilization_encoder, utilization_decoder, utilization_max,
    utilization_coverage_ms, memory_used_bytes, memory_limit_bytes, memory_reserved_bytes, process_count_compute,
    process_count_graphics, process_count_mps, process_count_ignored, process_memory_compute_bytes,
    process_memory_graphics_bytes, process_memory_mps_bytes, process_memory_ignored_bytes, process_unknown_compute,
    process_unknown_graphics, process_unknown_mps, process_unknown_ignored, process_utilization_max, power_mw,
    temperature_celsius, energy_total_mj, energy_mj, failed, process_list, memory_shared, mig, source, interval_ms
)
WITH
$NAMES
SELECT
    hosts[host_number + 1],
    cards[card_number + 1],
    fromUnixTimestamp64Milli(ts_ms, 'UTC'),
    covered_ms,
    covered_ms,
    if(is_unreadable, NULL, used_utilization),
    if(is_unreadable, NULL, 0),
    if(is_unreadable, NULL, 0),
    if(is_unreadable, NULL, least(10000, intDiv(used_utilization * 6, 500) * 100)),
    if(is_unreadable, NULL, covered_ms - noise % 200),
    job_memory_bytes + if(is_there, 629145600, 4194304),
    85520809984,
    506462208,
    count,
    0,
    0,
    0,
    job_memory_bytes,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    if(is_unreadable OR NOT is_there, NULL, intDiv(used_utilization * 19, 2000) * 100),
    power,
    30 + intDiv(power, 13000) + noise % 2,
    200000000000 + card_number * 1000000 + (ts_ms - 1700000000000) * 320 + noise % 5000000,
    intDiv(power * covered_ms, 1000),
    0,
    'known',
    false,
    'none',
    'agent',
    30000
FROM
(
$OCCUPANCY
)
