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
