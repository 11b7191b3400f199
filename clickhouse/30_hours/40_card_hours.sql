-- One row is one card in one UTC hour and one state. A tick belongs to the hour of its end less 1 ms. Hours that were counted
-- and have not changed since are read as they are, the others from their ticks.
CREATE OR REPLACE VIEW gua.card_hours${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the card is in',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    hour DateTime('UTC') COMMENT 'Start of the hour',
    state String COMMENT 'active, idle-held, truly-idle or unknown',
    reason Nullable(String) COMMENT 'Why unknown: lost, utilization, pid_namespace, processes, memory',
    card_ticks UInt64 COMMENT 'Ticks',
    duration_ms UInt64 COMMENT 'Observed time [ms]',
    gpu_time_ms UInt64 COMMENT 'GPU time [ms]'
)
$DEFINER
AS
-- Asked for once: an hour that is counted meanwhile would be read twice, or not at all.
WITH
    ${STATES},
    (SELECT groupArray(hour) FROM gua_report.changed_hours) AS changed
SELECT *
FROM
(
    -- Changed hours first: an engine takes the rows of a table as it comes to it, those of gua.host_hours after `changed`. The
    -- other way round an hour that is counted in between would be in neither.
    SELECT
        host,
        gpu,
        ${TICK_HOUR_START} AS hour,
        state,
        reason,
        count() AS card_ticks,
        sum(card_states.duration_ms) AS duration_ms,
        sum(card_states.gpu_time_ms) AS gpu_time_ms
    FROM gua.card_states${LOCAL} AS card_states
    WHERE ${TICK_HOUR} IN (SELECT intDiv(toUnixTimestamp(arrayJoin(changed)), 3600))
        AND card_states.duration_ms > 0
    GROUP BY
        host,
        gpu,
        hour,
        state,
        reason
    UNION ALL
    SELECT
        host,
        card_gpu AS gpu,
        hour,
        each.state AS state,
        each.reason AS reason,
        each.card_ticks AS card_ticks,
        each.duration_ms AS duration_ms,
        each.gpu_time_ms AS gpu_time_ms
    FROM
    (
        SELECT
            host,
            hour,
            card_gpu,
            arrayFilter(
                state -> state.card_ticks > 0,
                CAST(
                    arrayConcat(
                        [
                            ('active', CAST(NULL, 'Nullable(String)'), toUInt64(active_ticks), card_active_ms, active_gpu_time_ms),
                            ('idle-held', NULL, toUInt64(idle_held_ticks), card_idle_held_ms, idle_held_gpu_time_ms),
                            ('truly-idle', NULL, toUInt64(truly_idle_ticks), card_truly_idle_ms, truly_idle_gpu_time_ms)
                        ],
                        arrayFilter(
                            (why, why_gpu) -> why_gpu = card_gpu,
                            arrayMap(
                                (code, ticks, why_ms, why_gpu_time_ms) -> (
                                    'unknown',
                                    toNullable(REASON_NAMES[code - UNKNOWN + 1]),
                                    toUInt64(ticks),
                                    why_ms,
                                    why_gpu_time_ms
                                ),
                                unknowns.reason,
                                unknowns.ticks,
                                unknowns.duration_ms,
                                unknowns.gpu_time_ms
                            ),
                            unknowns.gpu
                        )
                    ),
                    'Array(Tuple(
                        state String,
                        reason Nullable(String),
                        card_ticks UInt64,
                        duration_ms UInt64,
                        gpu_time_ms UInt64
                    ))'
                )
            ) AS states
        FROM gua.host_hours${LOCAL} FINAL
        ARRAY JOIN
            cards.gpu AS card_gpu,
            cards.active_ticks AS active_ticks,
            cards.idle_held_ticks AS idle_held_ticks,
            cards.truly_idle_ticks AS truly_idle_ticks,
            cards.active_ms AS card_active_ms,
            cards.idle_held_ms AS card_idle_held_ms,
            cards.truly_idle_ms AS card_truly_idle_ms,
            cards.active_gpu_time_ms AS active_gpu_time_ms,
            cards.idle_held_gpu_time_ms AS idle_held_gpu_time_ms,
            cards.truly_idle_gpu_time_ms AS truly_idle_gpu_time_ms
        WHERE hour NOT IN (SELECT arrayJoin(changed))
    )
    ARRAY JOIN states AS each
) AS every
COMMENT 'Hours of each card by state'
