-- One row is one idle streak that overlaps the window (since_ms, until_ms]: consecutive idle ticks of one process. An active tick ends
-- it. An unknown tick, or a gap up to twice the longer tick beside it, does not, nor does a restart of the agent. Ignored processes have
-- no streaks. Ticks are read from one day before the window on: an earlier start is cut there.
CREATE OR REPLACE VIEW gua_report.idle_streaks $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    {since_ms:Int64} AS from_ms,
    {until_ms:Int64} AS to_ms,
    {hosts:Array(String)} AS of_hosts
${IDLE_STREAKS}
;
-- One row is one idle streak of all time: consecutive idle ticks of one process. Filter on host and gpu to read less. A filter on time
-- cannot, as a streak needs all its ticks: for a window query gua_report.idle_streaks. From 1970-01-03 to 2100: older engines skip every
-- partition if a bound, less one day, does not fit a Date.
CREATE OR REPLACE VIEW gua.idle_streaks $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the card is in',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    pid UInt32 COMMENT 'Process id on the host',
    created DateTime64(3, 'UTC') COMMENT 'When the process started; 1970-01-01 if unknown',
    owner Nullable(String) COMMENT 'User of the process',
    program Nullable(String) COMMENT 'Process name',
    start DateTime64(3, 'UTC') COMMENT 'Start of the first idle tick',
    end DateTime64(3, 'UTC') COMMENT 'End of the last idle tick',
    idle_ms UInt64 COMMENT 'Time of the idle ticks, without gaps and unknown ticks [ms]',
    ticks UInt64 COMMENT 'Idle ticks',
    memory_bytes Nullable(UInt64) COMMENT 'Largest known memory of the process in those ticks; NULL if unknown [By]'
)
$DEFINER
AS
WITH
    ${STATES},
    toInt64(172800000) AS from_ms,
    toInt64(4102444800000) AS to_ms,
    emptyArrayString() AS of_hosts
${IDLE_STREAKS}
COMMENT 'Idle streaks of processes. Filter on host: a filter on time alone reads all ticks'
