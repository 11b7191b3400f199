-- One row is one idle streak that reaches into the window (since_ms, until_ms]: idle ticks of one process in a row. An
-- active tick ends it; an unknown tick, or a gap of up to twice the longer of the two ticks beside it, does not, so it
-- survives a restart of the agent. Ignored processes hold nothing and have no streaks. Ticks from a day before the window
-- to its end are read: a streak that began earlier is shown from there on.
CREATE OR REPLACE VIEW gua_report.idle_streaks $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES}
SELECT
    host,
    gpu,
    pid,
    created,
    last_owner AS owner,
    last_program AS program,
    fromUnixTimestamp64Milli(streak[1].end_ms - streak[1].span_ms, 'UTC') AS start,
    fromUnixTimestamp64Milli(streak[-1].end_ms, 'UTC') AS end,
    arraySum(streak.span_ms) AS idle_ms,
    length(streak) AS ticks,
    nullIf(arrayMax(streak.memory_bytes), -1) AS memory_bytes
FROM
(
    SELECT
        host,
        gpu,
        pid,
        created,
        argMax(owner, ts) AS last_owner,
        argMax(program, ts) AS last_program,
        -- Arrays of numbers, each sorted by time: arrays of tuples take several times as long.
        groupArray(toUnixTimestamp64Milli(ts)) AS unsorted_ends_ms,
        arraySort(unsorted_ends_ms) AS ends_ms,
        arraySort((one, by) -> by, groupArray(duration_ms), unsorted_ends_ms) AS durations_ms,
        arraySort((one, by) -> by, groupArray(ifNull(toInt64(memory_bytes), toInt64(-1))), unsorted_ends_ms) AS memories,
        arraySort(
            (one, by) -> by,
            groupArray(toUInt8(indexOf(PROCESS_STATE_NAMES, state))),
            unsorted_ends_ms
        ) AS codes,
        arraySplit(
            (tick, tick_end, span, code, before_end, before_span) -> code = ACTIVE
                OR tick_end - span - before_end > 2 * greatest(span, before_span),
            CAST(
                arrayZip(ends_ms, durations_ms, codes, memories),
                'Array(Tuple(end_ms Int64, span_ms UInt32, state UInt8, memory_bytes Int64))'
            ),
            ends_ms,
            durations_ms,
            codes,
            arrayPushFront(arrayPopBack(ends_ms), ends_ms[1]),
            arrayPushFront(arrayPopBack(durations_ms), durations_ms[1])
        ) AS runs,
        -- A run begins with an active tick or after a gap, and only its first tick may be active.
        arrayFilter(
            run -> notEmpty(run),
            arrayMap(run -> arrayFilter(tick -> tick.state = PROCESS_IDLE, run), runs)
        ) AS streaks
    FROM gua.process_states
    WHERE ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC') - toIntervalDay(1)
        AND ts <= fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
        AND ${OF_HOSTS}
        AND ifNull(type != 'ignored', true)
    GROUP BY
        host,
        gpu,
        pid,
        created
)
ARRAY JOIN streaks AS streak
WHERE end > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
