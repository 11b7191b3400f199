-- One row is one host with a queue in the window. waiting is the most requests at once, wait_ms the waiting time of all requests,
-- waited_ms the time with at least one request. used_us to unknown_us are GPU time by use while requests waited; a tick counts by the
-- part in which they did. unknown_ms is time of source gua without stored queue ticks, as they have expired.
CREATE OR REPLACE VIEW gua_report.waits $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    ${USES},
    queued AS
    (
        SELECT
            toString(host) AS host,
            ts,
            toUnixTimestamp64Milli(ts) AS end_ms,
            toInt64(assumeNotNull(duration_ms)) AS tick_ms,
            greatest(least(end_ms, {until_ms:Int64}) - greatest(end_ms - tick_ms, {since_ms:Int64}), 0) AS inside_ms,
            max(source.waiting) AS waiting,
            sum(source.wait_ms) AS wait_ms,
            max(source.waited_ms) AS waited_ms
        FROM gua.allocation_source_ticks AS source FINAL
        WHERE ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND ts <= fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC') + toIntervalHour(1)
            AND ${OF_HOSTS}
            AND duration_ms > 0
            AND source.wait_ms IS NOT NULL
        GROUP BY
            host,
            ts,
            duration_ms
        HAVING inside_ms > 0
    ),
    checked_ticks AS
    (
        SELECT
            host,
            gpu,
            ts,
            toUnixTimestamp64Milli(ts) AS end_ms,
            end_ms - duration_ms AS start_ms,
            greatest(start_ms, {since_ms:Int64}) AS inside_since_ms,
            least(end_ms, {until_ms:Int64}) AS inside_until_ms,
            toUInt64(round(gpu_time_ms * 1000 * (inside_until_ms - inside_since_ms) / duration_ms)) AS gpu_us,
            gpu_time_ms,
            unallocated_gpu_time_ms,
            ${STATE_CODE} AS state_code
        FROM gua.card_states
        WHERE (host, ts) GLOBAL IN (SELECT host, ts FROM queued WHERE waited_ms > 0)
            AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND ts <= fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC') + toIntervalHour(1)
            AND allocation IS NOT NULL
            AND duration_ms > 0
            AND inside_until_ms > inside_since_ms
    ),
    allocations AS
    (
        SELECT *
        FROM gua.allocation_ticks FINAL
        WHERE (host, ts) GLOBAL IN (SELECT host, ts FROM queued WHERE waited_ms > 0)
            AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND ts <= fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC') + toIntervalHour(1)
            AND ${OF_HOSTS}
    ),
${USE_TICKS}
SELECT
    queue.host AS host,
    queue.waiting AS waiting,
    queue.wait_ms AS wait_ms,
    queue.waited_ms AS waited_ms,
    toUInt64(greatest(toInt64(sources.source_ms) - toInt64(queue.reported_ms), 0)) AS unknown_ms,
    ifNull(meanwhile.used_us, 0) AS used_us,
    ifNull(meanwhile.held_us, 0) AS held_us,
    ifNull(meanwhile.used_by_others_us, 0) AS used_by_others_us,
    ifNull(meanwhile.empty_us, 0) AS empty_us,
    ifNull(meanwhile.unallocated_use_us, 0) AS unallocated_use_us,
    ifNull(meanwhile.free_us, 0) AS free_us,
    ifNull(meanwhile.unknown_us, 0) AS unknown_us
FROM
(
    SELECT
        host,
        toUInt32(ifNull(max(queued.waiting), 0)) AS waiting,
        toUInt64(round(sum(ifNull(queued.wait_ms, 0) * inside_ms / tick_ms))) AS wait_ms,
        toUInt64(round(sum(ifNull(queued.waited_ms, 0) * inside_ms / tick_ms))) AS waited_ms,
        sum(inside_ms) AS reported_ms
    FROM queued
    GROUP BY host
) AS queue
LEFT JOIN
(
    SELECT
        toString(host) AS host,
        sum(ok_ms + failed_ms) AS source_ms
    FROM ${HOURS_OF_SOURCES}
    WHERE source = 'gua'
    GROUP BY host
) AS sources
    ON sources.host = queue.host
LEFT JOIN
(
    SELECT
        parts.host AS host,
        toUInt64(round(sumIf(us, use_code = USED))) AS used_us,
        toUInt64(round(sumIf(us, use_code = HELD))) AS held_us,
        toUInt64(round(sumIf(us, use_code = USED_BY_OTHERS))) AS used_by_others_us,
        toUInt64(round(sumIf(us, use_code = EMPTY))) AS empty_us,
        toUInt64(round(sumIf(us, use_code = UNALLOCATED_USE))) AS unallocated_use_us,
        toUInt64(round(sumIf(us, use_code = FREE))) AS free_us,
        toUInt64(round(sumIf(us, use_code = USE_UNKNOWN))) AS unknown_us
    FROM
    (
        SELECT
            toString(use_ticks.host) AS host,
            use_code,
            part_us * waits.waited_ms / waits.tick_ms AS us
        FROM use_ticks
        INNER JOIN queued AS waits ON waits.host = toString(use_ticks.host) AND waits.ts = use_ticks.ts
    ) AS parts
    GROUP BY host
) AS meanwhile
    ON meanwhile.host = queue.host
ORDER BY host
