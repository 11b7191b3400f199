WITH (SELECT arraySort(groupUniqArray(toString(gpu))) FROM gua.card_seen) AS every_card
SELECT
    concat(replaceOne(toString(ts), ' ', 'T'), '000+00:00'),
    gpu,
    pid,
    intDiv(memory_bytes, 1048576),
    owner,
    owner,
    indexOf(every_card, gpu) - 1,
    program
FROM gua.process_ticks FINAL
WHERE toDate(ts) = toDate($DAY)
ORDER BY
    ts,
    gpu,
    pid
