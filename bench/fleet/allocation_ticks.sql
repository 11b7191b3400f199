-- A job of four hours has each card in four of five cases; its owner is there where any process is.
INSERT INTO gua.allocation_ticks
    (host, gpu, ts, source, allocation_id, duration_ms, gpu_time_ms, relation, owner, uid, kind, since, job_name)
SELECT
    host,
    gpu,
    ts,
    'slurm',
    toString(cityHash64(gpu, toStartOfInterval(ts, INTERVAL 4 HOUR)) % 1000000 AS job),
    duration_ms,
    gpu_time_ms,
    if(process_count_compute > 0, 'owner', 'nobody'),
    concat('user', leftPad(toString(job % 300), 3, '0')),
    10000 + job % 300,
    'gpu',
    toStartOfInterval(ts, INTERVAL 4 HOUR),
    concat('train-', toString(job % 20))
FROM gua.card_ticks FINAL
WHERE job % 5 > 0
