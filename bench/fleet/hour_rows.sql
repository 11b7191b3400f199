-- One row is one host in one hour: that of a host that was counted from ticks ($SOURCES hosts of $SOURCE_DAYS days), on another
-- day, with the names of other cards, which it gives to them in another order, and of other users. So that no two rows have the
-- same numbers, times are shorter by up to a second: sums of one row agree to about that.
INSERT INTO gua.host_hours
WITH
    (
        SELECT groupArray(each)
        FROM
        (
            SELECT arraySort(groupArray(concat('GPU-', toString(reinterpretAsUUID(sipHash128('gpu', number)))))) AS each
            FROM numbers(($FIRST_HOST + $HOSTS) * 8)
            GROUP BY intDiv(number, 8) AS host_number
            ORDER BY host_number
        )
    ) AS cards_of,
    (
        SELECT groupArray(concat('gpu-node-', leftPad(toString(number), 4, '0')))
        FROM numbers($FIRST_HOST + $HOSTS)
    ) AS hosts,
    (SELECT groupArray(concat('user', leftPad(toString(number), 3, '0'))) FROM numbers(300)) AS users,
    cityHash64('varied', host_number, source_hour, later_days) AS varied,
    (one, by, place) -> toUInt64(if(one >= 1000, one - cityHash64(varied, by, place) % 1000, one)) AS shorter
SELECT
    hosts[host_number + 1] AS host,
    source_hour + toIntervalSecond(later_days * 86400) AS hour,
    source.marks AS marks,
    source.fingerprint AS fingerprint,
    now64(3, 'UTC') AS written,
    source.first_ms + later_ms AS first_ms,
    cityHash64(gpus) AS cards_key,
    source.interval_ms AS interval_ms,
    arrayMap(one -> one + later_ms, source.starts_ms) AS starts_ms,
    arrayMap(one -> one + later_ms, source.ends_ms) AS ends_ms,
    source.quarter_ticks AS quarter_ticks,
    arrayMap((one, place) -> shorter(one, 'quarter', place), source.quarter_gpu_time_ms, range(16)) AS quarter_gpu_time_ms,
    gpus AS `cards.gpu`,
    source.`cards.interval_ms` AS `cards.interval_ms`,
    arrayMap(each -> arrayMap(one -> one + later_ms, each), source.`cards.starts_ms`) AS `cards.starts_ms`,
    arrayMap(each -> arrayMap(one -> one + later_ms, each), source.`cards.ends_ms`) AS `cards.ends_ms`,
    arrayMap(place -> source.`cards.active_ticks`[place], places) AS `cards.active_ticks`,
    arrayMap(place -> source.`cards.idle_held_ticks`[place], places) AS `cards.idle_held_ticks`,
    arrayMap(place -> source.`cards.truly_idle_ticks`[place], places) AS `cards.truly_idle_ticks`,
    arrayMap(place -> source.`cards.unknown_ticks`[place], places) AS `cards.unknown_ticks`,
    arrayMap(place -> shorter(source.`cards.active_gpu_time_ms`[place], 'active', place), places) AS `cards.active_gpu_time_ms`,
    arrayMap(place -> shorter(source.`cards.idle_held_gpu_time_ms`[place], 'idle_held', place), places) AS `cards.idle_held_gpu_time_ms`,
    arrayMap(place -> shorter(source.`cards.truly_idle_gpu_time_ms`[place], 'truly_idle', place), places) AS `cards.truly_idle_gpu_time_ms`,
    arrayMap(place -> shorter(source.`cards.unknown_gpu_time_ms`[place], 'unknown', place), places) AS `cards.unknown_gpu_time_ms`,
    arrayMap(place -> shorter(source.`cards.active_ms`[place], 'active', place), places) AS `cards.active_ms`,
    arrayMap(place -> shorter(source.`cards.idle_held_ms`[place], 'idle_held', place), places) AS `cards.idle_held_ms`,
    arrayMap(place -> shorter(source.`cards.truly_idle_ms`[place], 'truly_idle', place), places) AS `cards.truly_idle_ms`,
    arrayMap(place -> shorter(source.`cards.unknown_ms`[place], 'unknown', place), places) AS `cards.unknown_ms`,
    arrayMap(gpu -> gpus[indexOf(places, indexOf(source.`cards.gpu`, gpu))], source.`unknowns.gpu`) AS `unknowns.gpu`,
    source.`unknowns.reason` AS `unknowns.reason`,
    source.`unknowns.ticks` AS `unknowns.ticks`,
    source.`unknowns.gpu_time_ms` AS `unknowns.gpu_time_ms`,
    source.`unknowns.duration_ms` AS `unknowns.duration_ms`,
    arrayMap(gpu -> gpus[indexOf(places, indexOf(source.`cards.gpu`, gpu))], source.`identities.gpu`) AS `identities.gpu`,
    arrayMap(owner -> users[1 + (toUInt32(substring(assumeNotNull(owner), 5)) + other_user) % 300], source.`identities.owner`) AS `identities.owner`,
    source.`identities.program` AS `identities.program`,
    source.`identities.state` AS `identities.state`,
    arrayMap((one, place) -> shorter(one, 'identity', place), source.`identities.gpu_time_ms`, arrayEnumerate(source.`identities.gpu_time_ms`)) AS `identities.gpu_time_ms`,
    arrayMap((one, place) -> shorter(one, 'duration', place), source.`identities.duration_ms`, arrayEnumerate(source.`identities.duration_ms`)) AS `identities.duration_ms`,
    arrayMap(gpu -> gpus[indexOf(places, indexOf(source.`cards.gpu`, gpu))], source.`shares.gpu`) AS `shares.gpu`,
    arrayMap(one -> one + later_ms, source.`shares.start_ms`) AS `shares.start_ms`,
    arrayMap(one -> one + later_ms, source.`shares.end_ms`) AS `shares.end_ms`,
    source.`shares.duration_ms` AS `shares.duration_ms`,
    source.`shares.gpu_time_ms` AS `shares.gpu_time_ms`,
    arrayMap(gpu -> gpus[indexOf(places, indexOf(source.`cards.gpu`, gpu))], source.`energies.gpu`) AS `energies.gpu`,
    source.`energies.state` AS `energies.state`,
    source.`energies.measured_mj` AS `energies.measured_mj`,
    source.`energies.measured_ms` AS `energies.measured_ms`,
    source.`energies.estimated_mj` AS `energies.estimated_mj`,
    source.`energies.estimated_ms` AS `energies.estimated_ms`,
    source.`energies.unknown_ms` AS `energies.unknown_ms`,
    arrayMap(gpu -> gpus[indexOf(places, indexOf(source.`cards.gpu`, gpu))], source.`card_runs.gpu`) AS `card_runs.gpu`,
    source.`card_runs.state` AS `card_runs.state`,
    arrayMap(one -> one + later_ms, source.`card_runs.start_ms`) AS `card_runs.start_ms`,
    arrayMap(one -> one + later_ms, source.`card_runs.end_ms`) AS `card_runs.end_ms`,
    source.`card_runs.first_span_ms` AS `card_runs.first_span_ms`,
    source.`card_runs.last_span_ms` AS `card_runs.last_span_ms`,
    source.`card_runs.duration_ms` AS `card_runs.duration_ms`,
    source.`card_runs.gpu_time_ms` AS `card_runs.gpu_time_ms`,
    source.`card_runs.is_used` AS `card_runs.is_used`,
    arrayMap(gpu -> gpus[indexOf(places, indexOf(source.`cards.gpu`, gpu))], source.`process_runs.gpu`) AS `process_runs.gpu`,
    arrayMap(one -> toUInt32(1000 + (one + other_user * 7919) % 4000000), source.`process_runs.pid`) AS `process_runs.pid`,
    arrayMap(one -> one + later_ms, source.`process_runs.created_ms`) AS `process_runs.created_ms`,
    arrayMap(owner -> users[1 + (toUInt32(substring(assumeNotNull(owner), 5)) + other_user) % 300], source.`process_runs.owner`) AS `process_runs.owner`,
    source.`process_runs.program` AS `process_runs.program`,
    source.`process_runs.container_id` AS `process_runs.container_id`,
    source.`process_runs.pod_uid` AS `process_runs.pod_uid`,
    source.`process_runs.slurm_job_id` AS `process_runs.slurm_job_id`,
    source.`process_runs.systemd_unit` AS `process_runs.systemd_unit`,
    source.`process_runs.state` AS `process_runs.state`,
    source.`process_runs.card_state` AS `process_runs.card_state`,
    arrayMap(one -> one + later_ms, source.`process_runs.start_ms`) AS `process_runs.start_ms`,
    arrayMap(one -> one + later_ms, source.`process_runs.end_ms`) AS `process_runs.end_ms`,
    source.`process_runs.first_span_ms` AS `process_runs.first_span_ms`,
    source.`process_runs.last_span_ms` AS `process_runs.last_span_ms`,
    source.`process_runs.duration_ms` AS `process_runs.duration_ms`,
    source.`process_runs.gpu_time_ms` AS `process_runs.gpu_time_ms`,
    source.`process_runs.memory_kib_ms` AS `process_runs.memory_kib_ms`,
    source.`process_runs.memory_known_ms` AS `process_runs.memory_known_ms`,
    source.`process_runs.memory_bytes` AS `process_runs.memory_bytes`,
    arrayMap(gpu -> gpus[indexOf(places, indexOf(source.`cards.gpu`, gpu))], source.`use_runs.gpu`) AS `use_runs.gpu`,
    source.`use_runs.source` AS `use_runs.source`,
    source.`use_runs.allocation_id` AS `use_runs.allocation_id`,
    source.`use_runs.owner` AS `use_runs.owner`,
    source.`use_runs.use` AS `use_runs.use`,
    source.`use_runs.is_shared` AS `use_runs.is_shared`,
    arrayMap(one -> one + later_ms, source.`use_runs.start_ms`) AS `use_runs.start_ms`,
    arrayMap(one -> one + later_ms, source.`use_runs.end_ms`) AS `use_runs.end_ms`,
    source.`use_runs.first_span_ms` AS `use_runs.first_span_ms`,
    source.`use_runs.last_span_ms` AS `use_runs.last_span_ms`,
    source.`use_runs.duration_ms` AS `use_runs.duration_ms`,
    source.`use_runs.gpu_time_ms` AS `use_runs.gpu_time_ms`,
    source.`allocation_sources.source` AS `allocation_sources.source`,
    source.`allocation_sources.ok_ms` AS `allocation_sources.ok_ms`,
    source.`allocation_sources.failed_ms` AS `allocation_sources.failed_ms`,
    arrayMap(one -> one + later_ms, source.`allocation_sources.last_ms`) AS `allocation_sources.last_ms`,
    arrayMap(one -> one + later_ms, source.`allocation_sources.last_failed_ms`) AS `allocation_sources.last_failed_ms`,
    source.`allocation_sources.reason` AS `allocation_sources.reason`,
    arrayMap(gpu -> gpus[indexOf(places, indexOf(source.`cards.gpu`, gpu))], source.`idle_times.gpu`) AS `idle_times.gpu`,
    source.`idle_times.state` AS `idle_times.state`,
    source.`idle_times.sampled_us` AS `idle_times.sampled_us`,
    source.`idle_times.idle_us` AS `idle_times.idle_us`,
    source.`idle_times.powered_us` AS `idle_times.powered_us`,
    source.`idle_times.energy_mj` AS `idle_times.energy_mj`,
    arrayMap(gpu -> gpus[indexOf(places, indexOf(source.`cards.gpu`, gpu))], source.`activities.gpu`) AS `activities.gpu`,
    source.`activities.metric` AS `activities.metric`,
    source.`activities.told_us` AS `activities.told_us`,
    source.`activities.weighted` AS `activities.weighted`,
    source.`activities.low_us` AS `activities.low_us`
FROM
(
    SELECT
        intDiv(number, $DAYS) + $FIRST_HOST AS host_number,
        $FIRST_DAY + number % $DAYS AS day,
        host_number % $SOURCES AS source_number,
        $SOURCE_FIRST_DAY + cityHash64('day of', host_number, day) % $SOURCE_DAYS AS source_day,
        toInt64(day) - toInt64(source_day) AS later_days,
        later_days * 86400000 AS later_ms,
        cityHash64('user of', host_number, intDiv(day, 7)) % 300 AS other_user,
        cityHash64('cards of', host_number, day) % 8 AS turned,
        cards_of[host_number + 1] AS gpus,
        arrayMap(place -> toUInt8((place + turned) % 8 + 1), range(8)) AS places
    FROM numbers($HOSTS * $DAYS)
) AS wanted
INNER JOIN
(
    SELECT
        *,
        hour AS source_hour,
        toUInt64(substring(toString(host), 10)) AS from_number,
        toUInt64(toUnixTimestamp(hour) / 86400) AS from_day
    FROM gua.bench_hours
) AS source
    ON source.from_number = wanted.source_number AND source.from_day = wanted.source_day
