INSERT INTO gua.process_ticks
(
    host, gpu, ts, pid, created, duration_ms, gpu_time_ms, memory_bytes, utilization, owner, program, uid, type,
    container_id, slurm_job_id, systemd_unit
)
WITH
$NAMES,
    (SELECT groupArray(concat('user', leftPad(toString(number), 3, '0'))) FROM numbers(300)) AS users,
    [
        'python3', 'python3', 'python3', 'python3', 'pt_main_thread', 'pt_main_thread', 'ray::IDLE', 'VLLM::EngineCor',
        'jupyter-lab', 'julia', 'lmp', 'gmx', 'namd3', 'ollama', 'tritonserver', 'text-generation'
    ] AS programs
SELECT
    hosts[host_number + 1],
    cards[card_number + 1],
    fromUnixTimestamp64Milli(ts_ms, 'UTC'),
    1000 + cityHash64(job, process) % 4000000,
    fromUnixTimestamp64Milli(toInt64($DAY * 86400 + tick * 30 + begins - slot_second) * 1000 + process * 137 + job % 1000, 'UTC'),
    covered_ms,
    if(
        process = 0,
        covered_ms - (of_this - 1) * each_part - if(holders = 2, intDiv(count, 2) * intDivOrZero(covered_ms, 2 * intDiv(count, 2)), 0),
        each_part
    ),
    intDivOrZero(job_memory_bytes, count),
    if(is_unreadable, NULL, intDivOrZero(used_utilization * if(process = 0, 19, 10), 2000 * if(process = 0, 1, count)) * 100),
    users[1 + user],
    programs[1 + intDiv(job, 29) % length(programs)],
    10000 + user,
    'compute',
    if(intDiv(job, 31) % 10 >= 8, concat(lower(hex(sipHash128('container', job))), lower(hex(sipHash128(job)))), NULL),
    if(intDiv(job, 31) % 10 < 6, toString(100000 + job % 900000), NULL),
    if(intDiv(job, 31) % 10 < 6, 'slurmstepd.scope', concat('user@', toString(10000 + user), '.service'))
FROM
(
    SELECT
        *,
        process,
        -- Processes of a second holder have odd numbers.
        if(holders = 2, if(process % 2 = 0, intDiv(count + 1, 2), intDiv(count, 2)), count) AS of_this,
        intDivOrZero(covered_ms, holders * of_this) AS each_part,
        toUInt32(floor(pow(if(holders = 2 AND process % 2 = 1, cityHash64('guest', job), job) % 1000003 / 1000003, 2.5) * 300)) AS user
    FROM
    (
$OCCUPANCY
    )
    ARRAY JOIN range(toUInt32(count)) AS process
)
