-- One row is one owner and program on one card in one UTC hour, by the state of the card. Their GPU time is the part attributed
-- to them; durations add up to more where several processes share a card. As in gua.card_hours, changed hours come from ticks.
CREATE OR REPLACE VIEW gua.owner_hours${LOCAL} $ON_CLUSTER
(
${OWNER_HOURS_COLUMNS}
)
$DEFINER
AS
WITH
    ${STATES},
    -- Asked for once: an hour that is counted meanwhile would be read twice, or not at all.
    (SELECT groupArray(hour) FROM gua_report.changed_hours) AS changed,
    spans AS
    (
        SELECT
            host,
            gpu,
            toUnixTimestamp64Milli(ts) AS end_ms,
            toInt64(duration_ms) AS inside_ms,
            1. AS inside_part,
            ${STATE_CODE} AS state_code
        FROM gua.card_states${LOCAL}
        WHERE ${TICK_HOUR} IN (SELECT intDiv(toUnixTimestamp(arrayJoin(changed)), 3600))
            AND duration_ms > 0
    ),
    processes AS
    (
        SELECT *
        FROM gua.process_ticks${LOCAL} FINAL
        WHERE ${TICK_HOUR} IN (SELECT intDiv(toUnixTimestamp(arrayJoin(changed)), 3600))
            AND gpu_time_ms IS NOT NULL
    )
SELECT *
FROM
(
    -- Changed hours first, as in gua.card_hours.
    SELECT
        host,
        gpu,
        hour,
        owner,
        program,
        STATE_NAMES[each.state] AS state,
        intDiv(sum(part_us), 1000) AS gpu_time_ms,
        toUInt64(sum(covered_ms)) AS duration_ms
    FROM
    (
${OWNER_TICKS}
    ) AS each
    GROUP BY
        host,
        gpu,
        hour,
        owner,
        program,
        each.state
    UNION ALL
    SELECT
        host,
        identity_gpu AS gpu,
        hour,
        identity_owner AS owner,
        identity_program AS program,
        STATE_NAMES[identity_state] AS state,
        identity_gpu_time_ms AS gpu_time_ms,
        identity_duration_ms AS duration_ms
    FROM gua.host_hours${LOCAL} FINAL
    ARRAY JOIN
        identities.gpu AS identity_gpu,
        identities.owner AS identity_owner,
        identities.program AS identity_program,
        identities.state AS identity_state,
        identities.gpu_time_ms AS identity_gpu_time_ms,
        identities.duration_ms AS identity_duration_ms
    WHERE hour NOT IN (SELECT arrayJoin(changed))
) AS every
COMMENT 'Hours of each owner and program on each card'
