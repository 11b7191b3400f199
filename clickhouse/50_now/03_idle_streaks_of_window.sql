-- One row is one idle streak that reaches into the window (since_ms, until_ms]: idle ticks of one process in a row. An
-- active tick ends it; an unknown tick, or a gap of up to twice the longer of the two ticks beside it, does not, so it
-- survives a restart of the agent. Ignored processes hold nothing and have no streaks. Ticks from a day before the window
-- to its end are read: a streak that began earlier is shown from there on.
CREATE OR REPLACE VIEW gua_report.idle_streaks $ON_CLUSTER
$DEFINER
AS
WITH
    ${STATES},
    {since_ms:Int64} AS from_ms,
    {until_ms:Int64} AS to_ms,
    {hosts:Array(String)} AS of_hosts
${IDLE_STREAKS}
