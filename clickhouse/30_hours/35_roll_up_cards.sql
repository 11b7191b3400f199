-- One row is one row of gua.hourly_cards: what was rolled up, what is gone (empty), and the row of the host.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.roll_up_cards $ON_CLUSTER TO gua.hourly_cards${LOCAL} $DEFINER
AS
WITH
    ${STATES},
    due AS
    (
        SELECT
            host,
            hour,
            marks,
            fingerprint,
            first_ms
        FROM gua.card_intervals${LOCAL}
        WHERE gpu = ''
    ),
${DUE_SPANS},
${HOURLY_CARD_ROWS}
SELECT
    host,
    gpu,
    hour,
    state,
    is_partitioned,
    now64(3, 'UTC') AS written,
    present.marks AS marks,
    present.fingerprint AS fingerprint,
    if(gpu = '', present.first_ms, made.first_ms) AS first_ms,
    made.ticks AS ticks,
    made.gpu_us AS gpu_us,
    made.observed_ms AS observed_ms,
    made.interval_ms AS interval_ms,
    made.quarter_ticks AS quarter_ticks,
    made.quarter_gpu_us AS quarter_gpu_us,
    made.measured_mj AS measured_mj,
    made.measured_ms AS measured_ms,
    made.estimated_mj AS estimated_mj,
    made.estimated_ms AS estimated_ms,
    made.sampled_us AS sampled_us,
    made.idle_us AS idle_us,
    made.powered_us AS powered_us,
    made.idle_mj AS idle_mj,
    made.activity_us AS activity_us,
    made.activity_weighted AS activity_weighted,
    made.activity_low_us AS activity_low_us,
    made.limit_bytes AS limit_bytes,
    made.reserved_bytes AS reserved_bytes,
    made.is_instance AS is_instance,
    made.is_shared AS is_shared,
    made.whole_bytes AS whole_bytes,
    made.clocks_ms AS clocks_ms,
    made.heat_ms AS heat_ms,
    made.power_cap_ms AS power_cap_ms,
    made.hardware_ms AS hardware_ms,
    made.slowed_ms AS slowed_ms,
    made.xid_errors AS xid_errors,
    made.xid AS xid,
    made.xid_at_ms AS xid_at_ms,
    made.ecc_errors AS ecc_errors,
    made.row_remap AS row_remap,
    made.row_remap_at_ms AS row_remap_at_ms
FROM
(
    SELECT
        host,
        '' AS gpu,
        hour,
        toUInt8(0) AS state,
        false AS is_partitioned,
        marks,
        fingerprint,
        first_ms
    FROM due
    UNION ALL
    SELECT
        host,
        gpu,
        hour,
        state,
        is_partitioned,
        toUInt64(0) AS marks,
        toUInt64(0) AS fingerprint,
        ${NO_TICK_MS} AS first_ms
    FROM gua.hourly_cards${LOCAL}
    WHERE (host, hour) IN (SELECT host, hour FROM due) AND gpu != ''
) AS present
FULL JOIN hourly_card_rows AS made USING (host, gpu, hour, state, is_partitioned)
COMMENT 'Rolls up cards of due hours'
