-- One row is one card tick as far as it lies in the window (since_ms, until_ms]; what lies outside is cut off. Only ticks of
-- the hours asked for, as numbers since 1970: a tick belongs to the hour of its end less 1 ms.
CREATE OR REPLACE VIEW gua_report.spans $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES}
SELECT
    host,
    gpu,
    ts,
    ${TICK_HOUR_START} AS hour,
    toUnixTimestamp64Milli(ts) AS end_ms,
    end_ms - duration_ms AS start_ms,
    greatest(start_ms, {since_ms:Int64}) AS inside_since_ms,
    least(end_ms, {until_ms:Int64}) AS inside_until_ms,
    inside_until_ms - inside_since_ms AS inside_ms,
    inside_ms / duration_ms AS inside_part,
    -- Whole microseconds, so that sums are the same in whatever order and pieces they are made.
    if(inside_ms = duration_ms, toUInt64(gpu_time_ms) * 1000, toUInt64(round(gpu_time_ms * 1000 * inside_part))) AS gpu_us,
    interval_ms,
    -- Energy of what lies inside; power is what was drawn when the card was read.
    if(inside_ms = duration_ms, energy_mj, toUInt64(round(energy_mj * inside_part))) AS energy_mj,
    power_mw,
    ifNull(largest_utilization > 0, false) AS is_used,
    is_partitioned,
    state,
    reason,
    ${STATE_CODE} AS state_code,
    gpu_time_ms,
    allocation,
    unallocated_gpu_time_ms,
    ${IDLE_TIME},
    busiest_utilization,
    sm_utilization,
    sm_occupancy,
    tensor_utilization,
    memory_bandwidth_utilization,
    if(inside_ms = duration_ms, ifNull(idle_energy_mj, 0), toUInt64(round(ifNull(idle_energy_mj, 0) * inside_part))) AS idle_mj
FROM gua.card_states
WHERE ${TICK_HOUR} IN {tick_hours:Array(Int64)}
    AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    AND ${OF_HOSTS}
    AND inside_ms > 0
