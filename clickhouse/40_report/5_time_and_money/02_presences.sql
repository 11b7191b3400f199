-- One row is one of the processes that were longest on a card, each card's `most` of them, and how many it had in all.
CREATE OR REPLACE VIEW gua_report.presences $ON_CLUSTER
$DEFINER
AS
SELECT
    host,
    gpu,
    pid,
    owner,
    program,
    first_ms,
    last_ms,
    toInt64(arraySum(episodes.3)) AS idle_ms,
    toInt64(arraySum(arrayMap(run -> if(run.1 = 3, run.6, 0), runs))) AS unknown_ms,
    count() OVER (PARTITION BY host, gpu) AS processes,
    row_number() OVER (PARTITION BY host, gpu ORDER BY arraySum(runs.6) DESC, first_ms, pid) AS place
FROM gua_report.process_streaks(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)}, ticked = {ticked:Array(Int64)}, stored = {stored:UInt8})
WHERE is_kept
QUALIFY place <= {most:UInt32}
ORDER BY
    host,
    gpu,
    place
