-- Idle seconds of cards in use and what power samples tell of them, in the steps in which agents tell them of 30 s: all that samples
-- cover of a tick in which nothing ran, of the others the seconds between kernels, of a driver whose samples come as they come.
INSERT INTO gua.card_ticks (host, gpu, ts, idle_time_ms, idle_energy_mj)
SELECT
    host,
    gpu,
    ts,
    toUInt32(round(measured_ms / 125) * 125) AS idle_ms,
    if(process_count_compute > 0, toUInt64(round(measured_ms * (119000 + cityHash64(gpu, ts) % 9000) / 7500000) * 7500), NULL)
FROM
(
    SELECT
        host,
        gpu,
        ts,
        process_count_compute,
        if(
            utilization < 300,
            utilization_coverage_ms,
            utilization_coverage_ms * (10000 - utilization) / 12000 + cityHash64(gpu, ts, 9) % 167
        ) AS measured_ms
    FROM gua.card_ticks FINAL
    WHERE utilization IS NOT NULL
)
