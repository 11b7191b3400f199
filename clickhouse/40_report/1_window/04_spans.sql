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
    ${CUT_TICK},
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
