-- One row is one card in gua top at its newest tick. now_ms is the server's clock. state_ms is the time in its state at that tick; of a
-- silent card the time since. free_ms is the time truly-idle and unallocated, from the UTC day before the tick on; NULL if it is not
-- free, or unknown.
CREATE OR REPLACE VIEW gua_report.top_cards $ON_CLUSTER
$DEFINER
AS
SELECT
    toString(cards.host) AS host,
    toString(cards.gpu) AS gpu,
    cards.gpu_index AS index,
    cards.name AS name,
    cards.mig AS mig,
    ifNull(cards.source, 'agent') AS source,
    toUnixTimestamp64Milli(cards.ts) AS ts_ms,
    cards.age_ms AS age_ms,
    cards.state AS state,
    cards.reason AS reason,
    cards.last_state AS last_state,
    greatest(if(cards.stale, cards.age_ms, cards.in_state_ms), 0) AS state_ms,
    cards.busiest_utilization / 10000 AS utilization,
    cards.held_lower_bytes AS held_lower_bytes,
    CAST(cards.allocation, 'Nullable(String)') AS allocation,
    cards.without_process AS without_process,
    ticks.memory_used_bytes AS memory_used_bytes,
    ticks.memory_limit_bytes AS memory_limit_bytes,
    ticks.power_mw / 1000 AS power_watts,
    ticks.temperature_celsius AS temperature_celsius,
    ticks.interval_ms AS interval_ms,
    if(
        cards.state = 'truly-idle' AND ifNull(cards.allocation != 'unknown', true) AND allocations.until_ms < ts_ms,
        least(cards.in_state_ms, ts_ms - allocations.until_ms),
        NULL
    ) AS free_ms,
    toUnixTimestamp64Milli(now64(3, 'UTC')) AS now_ms
FROM
(
    SELECT *
    FROM gua.current_cards
    WHERE ${OF_HOSTS}
) AS cards
LEFT JOIN
(
    SELECT
        host,
        gpu,
        ts,
        memory_used_bytes,
        memory_limit_bytes,
        power_mw,
        temperature_celsius,
        interval_ms
    FROM gua.card_ticks FINAL
    WHERE (host, gpu, ts) GLOBAL IN
        (
            SELECT
                host,
                gpu,
                max(last_seen)
            FROM gua.card_seen
            WHERE ${OF_HOSTS}
            GROUP BY ALL
        )
) AS ticks
    ON ticks.host = cards.host AND ticks.gpu = cards.gpu AND ticks.ts = cards.ts
LEFT JOIN
(
    SELECT
        host,
        gpu,
        max(toUnixTimestamp64Milli(least(ifNull(until, ts), ts))) AS until_ms
    FROM gua.allocation_ticks
    WHERE ${OF_HOSTS}
        AND ${IN_NEWEST_DAYS}
    GROUP BY ALL
) AS allocations
    ON allocations.host = cards.host AND allocations.gpu = cards.gpu
ORDER BY
    host,
    index,
    mig,
    gpu
;
-- One row is one process on one card in gua top, at the card's newest tick.
CREATE OR REPLACE VIEW gua_report.top_holders $ON_CLUSTER
$DEFINER
AS
SELECT
    toString(host) AS host,
    toString(gpu) AS gpu,
    gpu_index AS index,
    name AS card_name,
    age_ms,
    pid,
    nullIf(toUnixTimestamp64Milli(created), 0) AS created_ms,
    owner,
    program,
    type,
    container_id,
    pod_uid,
    slurm_job_id,
    systemd_unit,
    memory_bytes,
    utilization / 10000 AS utilization,
    state,
    idle_ms
FROM gua.current_holders
WHERE ${OF_HOSTS}
ORDER BY
    host,
    index,
    gpu,
    pid
