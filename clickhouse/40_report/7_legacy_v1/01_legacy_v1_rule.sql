-- One row is one card by the state of gpu-usage-audit 1.0 to 1.8 (theirs), of gua (ours), and the reason of the difference. Its rule:
-- utilization of 10 % or more is active. Otherwise, more than 100 MiB of listed compute and graphics processes, in whole MiB of each, is
-- idle-held. Everything else is truly-idle. Ticks count that end in (since_ms, until_ms]. Query few days of many cards at a time, as each
-- tick is joined; results of several queries add up.
CREATE OR REPLACE VIEW gua_report.legacy_v1_rule $ON_CLUSTER
$DEFINER
AS
SELECT
    host,
    gpu,
    theirs,
    ours,
    why,
    count() AS card_ticks,
    sum(gpu_ms) AS gpu_time_ms
FROM
(
    SELECT
        host,
        gpu,
        multiIf(
            is_instance OR utilization IS NULL, 'not-counted',
            ifNull(utilization, 0) >= 1000, 'active',
            listed_mib > 100, 'idle-held',
            'truly-idle'
        ) AS theirs,
        state AS ours,
        gpu_ms,
        multiIf(
            theirs = ours, '',
            is_instance, 'instance',
            theirs = 'not-counted' AND ours != 'unknown', 'not-read',
            ours = 'unknown', reason,
            theirs = 'active', 'settings',
            ours = 'active', multiIf(
                busiest = ifNull(utilization, 0), 'settings',
                busiest = ifNull(process_utilization, 0), 'process-utilization',
                busiest = ifNull(encoder, 0), 'encoder',
                'decoder'
            ),
            theirs = 'idle-held', multiIf(
                listed_mib > 100 AND counted_bytes > 104857600 AND counted_bytes <= threshold, 'settings',
                ignored_bytes > 0, 'ignored',
                'list'
            ),
            counted_unknown > 0, 'unknown-memory',
            counted_bytes > threshold, multiIf(
                threshold < 104857600 AND counted_bytes <= 104857600, 'settings',
                mps_bytes > 0, 'mps',
                'rounding'
            ),
            held_lower > threshold, if(threshold < 104857600 AND held_lower <= 104857600, 'settings', 'unattributed'),
            'list'
        ) AS why
    FROM
    (
        SELECT
            judged.host AS host,
            judged.gpu AS gpu,
            judged.state AS state,
            toString(ifNull(judged.reason, '')) AS reason,
            toUInt64(judged.gpu_time_ms) AS gpu_ms,
            toUInt16(ifNull(judged.busiest_utilization, 0)) AS busiest,
            judged.threshold_bytes AS threshold,
            judged.counted_memory_bytes AS counted_bytes,
            judged.held_lower_bytes AS held_lower,
            judged.is_instance AS is_instance,
            read.utilization AS utilization,
            read.utilization_encoder AS encoder,
            read.process_utilization_max AS process_utilization,
            ifNull(read.process_memory_ignored_bytes, 0) AS ignored_bytes,
            ifNull(read.process_memory_mps_bytes, 0) AS mps_bytes,
            toUInt64(
                ifNull(read.process_unknown_compute, 0)
                + ifNull(read.process_unknown_graphics, 0)
                + ifNull(read.process_unknown_mps, 0)
            ) AS counted_unknown,
            listed.mib AS listed_mib
        FROM
        (
            SELECT *
            FROM gua.card_states
            WHERE ${IN_WINDOW}
                AND ${OF_HOSTS}
        ) AS judged
        INNER JOIN
        (
            SELECT *
            FROM gua.card_ticks FINAL
            WHERE ${IN_WINDOW}
                AND ${OF_HOSTS}
        ) AS read
            ON read.host = judged.host AND read.gpu = judged.gpu AND read.ts = judged.ts
        LEFT JOIN
        (
            SELECT
                host,
                gpu,
                ts,
                sum(intDiv(ifNull(memory_bytes, 0), 1048576)) AS mib
            FROM gua.process_ticks FINAL
            WHERE ${IN_WINDOW}
                AND ${OF_HOSTS}
                AND ifNull(type, '') != 'mps'
            GROUP BY ALL
        ) AS listed
            ON listed.host = judged.host AND listed.gpu = judged.gpu AND listed.ts = judged.ts
    )
)
GROUP BY ALL
