-- One row is one card tick as far as it lies in the window (since_ms, until_ms]; what lies outside is cut off.
CREATE OR REPLACE VIEW gua_report.spans $ON_CLUSTER
AS
SELECT
    host,
    gpu,
    ts,
    toUnixTimestamp64Milli(ts) AS end_ms,
    end_ms - duration_ms AS start_ms,
    greatest(start_ms, {since_ms:Int64}) AS inside_since_ms,
    least(end_ms, {until_ms:Int64}) AS inside_until_ms,
    inside_until_ms - inside_since_ms AS inside_ms,
    inside_ms / duration_ms AS inside_part,
    gpu_time_ms * inside_part AS gpu_ms,
    interval_ms,
    state,
    reason,
    -- State and reason as one small number, by which a month of ticks is grouped in a third of the time.
    toUInt8(multiIf(
        state = 'active', 1,
        state = 'idle-held', 2,
        state = 'truly-idle', 3,
        reason = 'lost', 4,
        reason = 'utilization', 5,
        reason = 'pid_namespace', 6,
        reason = 'processes', 7,
        8
    )) AS state_code
FROM gua.card_states
WHERE ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    AND ts <= fromUnixTimestamp64Milli({until_ms:Int64} + (SELECT toInt64(max(longest_ms)) FROM gua.card_seen), 'UTC')
    AND (empty({hosts:Array(String)}) OR has({hosts:Array(String)}, host))
    AND inside_ms > 0
