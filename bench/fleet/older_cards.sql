WITH (SELECT arraySort(groupUniqArray(toString(gpu))) FROM gua.card_seen) AS every_card
SELECT
    concat(replaceOne(toString(ts), ' ', 'T'), '000+00:00'),
    gpu,
    intDiv(ifNull(utilization, 0), 100) AS util_pct,
    indexOf(every_card, gpu) - 1,
    intDiv(memory_used_bytes, 1048576),
    temperature_celsius,
    intDiv(power_mw, 1000),
    multiIf(util_pct > 5, 'active', process_count_compute > 0, 'idle_held', 'idle')
FROM gua.card_ticks FINAL
WHERE toDate(ts) = toDate($DAY)
ORDER BY
    ts,
    gpu
