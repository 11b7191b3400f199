-- What the card ticks themselves say of those jobs; parts merge into the rows that are there.
INSERT INTO gua.card_ticks (host, gpu, ts, allocation, unallocated_gpu_time_ms)
SELECT
    host,
    gpu,
    ts,
    if(cityHash64(gpu, toStartOfInterval(ts, INTERVAL 4 HOUR)) % 1000000 % 5 > 0 AS is_allocated, 'allocated', 'unallocated'),
    if(is_allocated, 0, gpu_time_ms)
FROM gua.card_ticks FINAL
