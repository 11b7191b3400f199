-- One row is one card at its newest tick. Only the UTC days around that tick are read. A silent card is unobserved, whatever its last
-- state. Ticks later than tomorrow are ignored, as such a card would not change until then.
CREATE OR REPLACE VIEW gua.current_cards $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES}
SELECT
    ticks.host AS host,
    ticks.gpu AS gpu,
    card.gpu_index AS gpu_index,
    card.name AS name,
    card.model AS model,
    card.mig AS mig,
    card.source AS source,
    ticks.newest.ts AS ts,
    dateDiff('millisecond', ts, now64(3, 'UTC')) AS age_ms,
    CAST(age_ms > 3 * ifNull(ticks.newest.interval_ms, ticks.longest_ms), 'Bool') AS stale,
    if(stale, 'unobserved', last_state) AS state,
    if(stale, 'silent', ticks.newest.reason) AS reason,
    ticks.newest.state AS last_state,
    fromUnixTimestamp64Milli(ticks.since_ms, 'UTC') AS since,
    dateDiff('millisecond', since, ts) AS in_state_ms,
    ticks.newest.busiest_utilization AS busiest_utilization,
    ticks.newest.held_lower_bytes AS held_lower_bytes,
    ticks.newest.held_upper_bytes AS held_upper_bytes,
    ticks.newest.unattributed_lower_bytes AS unattributed_lower_bytes,
    ticks.newest.allocation AS allocation,
    if(stale, NULL, ticks.newest.without_process) AS without_process
FROM
(
    SELECT
        host,
        gpu,
        CAST(
            argMax(
                (
                    ts,
                    interval_ms,
                    state,
                    reason,
                    busiest_utilization,
                    held_lower_bytes,
                    held_upper_bytes,
                    unattributed_lower_bytes,
                    allocation,
                    without_process
                ),
                ts
            ),
            'Tuple(
                ts DateTime64(3, \'UTC\'),
                interval_ms Nullable(UInt32),
                state String,
                reason Nullable(String),
                busiest_utilization Nullable(UInt16),
                held_lower_bytes UInt64,
                held_upper_bytes Nullable(UInt64),
                unattributed_lower_bytes UInt64,
                allocation LowCardinality(Nullable(String)),
                without_process Nullable(Bool)
            )'
        ) AS newest,
        max(duration_ms) AS longest_ms,
        -- Arrays of numbers, each sorted by time: arrays of tuples take several times as long.
        groupArray(toUnixTimestamp64Milli(ts)) AS unsorted_ends_ms,
        arrayReverseSort(unsorted_ends_ms) AS ends_ms,
        arrayReverseSort((one, by) -> by, groupArray(duration_ms), unsorted_ends_ms) AS durations_ms,
        arrayReverseSort(
            (one, by) -> by,
            groupArray(toUInt8(indexOf(STATE_NAMES, state))),
            unsorted_ends_ms
        ) AS codes,
        codes[1] AS newest_code,
        -- From the newest tick back, the first tick of another state or before a gap.
        arrayFirstIndex(
            (tick_end, span, code, later_end, later_span) -> code != newest_code
                OR later_end - later_span - tick_end > 2 * greatest(span, later_span),
            ends_ms,
            durations_ms,
            codes,
            arrayPushFront(arrayPopBack(ends_ms), ends_ms[1] + durations_ms[1]),
            arrayPushFront(arrayPopBack(durations_ms), durations_ms[1])
        ) AS other,
        if(other = 0, length(codes), toUInt64(other - 1)) AS oldest,
        ends_ms[oldest] - durations_ms[oldest] AS since_ms
    FROM gua.card_states
    WHERE ${IN_NEWEST_DAYS}
    GROUP BY
        host,
        gpu
) AS ticks
LEFT JOIN gua.cards AS card
    ON card.host = ticks.host AND card.gpu = ticks.gpu
COMMENT 'All cards at their newest tick'
