-- One row is one card, what gpu-usage-audit 1.0 to 1.8 says of its ticks, what the rules here say, and why they differ.
-- Its rule: a general utilization of 10 % or more is active; else more than 100 MiB held by the processes of the compute and
-- graphics lists, whole MiB of each, is idle-held; else truly-idle. It counts ticks that end in (since_ms, until_ms]. One
-- entry a tick is grouped: ask for few days of many cards at a time, the answers add up.
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
            host,
            gpu,
            max(part_state) AS state,
            max(part_reason) AS reason,
            sum(part_gpu_ms) AS gpu_ms,
            max(part_busiest) AS busiest,
            max(part_threshold) AS threshold,
            max(part_counted_bytes) AS counted_bytes,
            max(part_held_lower) AS held_lower,
            max(part_utilization) AS utilization,
            max(part_encoder) AS encoder,
            max(part_process_utilization) AS process_utilization,
            max(part_ignored_bytes) AS ignored_bytes,
            max(part_mps_bytes) AS mps_bytes,
            max(part_counted_unknown) AS counted_unknown,
            max(part_is_instance) AS is_instance,
            sum(part_mib) AS listed_mib
        FROM
        (
            SELECT
                host,
                gpu,
                ts,
                state AS part_state,
                toString(ifNull(reason, '')) AS part_reason,
                toUInt64(gpu_time_ms) AS part_gpu_ms,
                toUInt16(ifNull(busiest_utilization, 0)) AS part_busiest,
                threshold_bytes AS part_threshold,
                counted_memory_bytes AS part_counted_bytes,
                held_lower_bytes AS part_held_lower,
                CAST(NULL, 'Nullable(UInt16)') AS part_utilization,
                CAST(NULL, 'Nullable(UInt16)') AS part_encoder,
                CAST(NULL, 'Nullable(UInt16)') AS part_process_utilization,
                toUInt64(0) AS part_ignored_bytes,
                toUInt64(0) AS part_mps_bytes,
                toUInt64(0) AS part_counted_unknown,
                false AS part_is_instance,
                toUInt64(0) AS part_mib
            FROM gua.card_states
            WHERE ${IN_WINDOW}
                AND ${OF_HOSTS}
            UNION ALL
            SELECT
                host,
                gpu,
                ts,
                '' AS part_state,
                '' AS part_reason,
                toUInt64(0) AS part_gpu_ms,
                toUInt16(0) AS part_busiest,
                toUInt64(0) AS part_threshold,
                toUInt64(0) AS part_counted_bytes,
                toUInt64(0) AS part_held_lower,
                utilization AS part_utilization,
                utilization_encoder AS part_encoder,
                process_utilization_max AS part_process_utilization,
                ifNull(process_memory_ignored_bytes, 0) AS part_ignored_bytes,
                ifNull(process_memory_mps_bytes, 0) AS part_mps_bytes,
                toUInt64(
                    ifNull(process_unknown_compute, 0)
                    + ifNull(process_unknown_graphics, 0)
                    + ifNull(process_unknown_mps, 0)
                ) AS part_counted_unknown,
                ifNull(mig = 'instance', false) AS part_is_instance,
                toUInt64(0) AS part_mib
            FROM gua.card_ticks FINAL
            WHERE ${IN_WINDOW}
                AND ${OF_HOSTS}
            UNION ALL
            SELECT
                host,
                gpu,
                ts,
                '' AS part_state,
                '' AS part_reason,
                toUInt64(0) AS part_gpu_ms,
                toUInt16(0) AS part_busiest,
                toUInt64(0) AS part_threshold,
                toUInt64(0) AS part_counted_bytes,
                toUInt64(0) AS part_held_lower,
                CAST(NULL, 'Nullable(UInt16)') AS part_utilization,
                CAST(NULL, 'Nullable(UInt16)') AS part_encoder,
                CAST(NULL, 'Nullable(UInt16)') AS part_process_utilization,
                toUInt64(0) AS part_ignored_bytes,
                toUInt64(0) AS part_mps_bytes,
                toUInt64(0) AS part_counted_unknown,
                false AS part_is_instance,
                intDiv(ifNull(memory_bytes, 0), 1048576) AS part_mib
            FROM gua.process_ticks FINAL
            WHERE ${IN_WINDOW}
                AND ${OF_HOSTS}
                AND ifNull(type, '') != 'mps'
        )
        GROUP BY
            host,
            gpu,
            ts
        -- A process of no card tick is nobody's.
        HAVING state != ''
    )
)
GROUP BY
    host,
    gpu,
    theirs,
    ours,
    why
