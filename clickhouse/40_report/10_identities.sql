-- One row is one owner and program on cards that were not truly idle, in one UTC day (one partition: memory stays
-- bounded; the days add up). gpu_ms is attributed time; unsplit_ms counts each card tick once, however many processes of
-- the identity were on the card. Card ticks on which no process was listed are one row of kind unlisted.
CREATE OR REPLACE VIEW gua_report.identities $ON_CLUSTER
AS
WITH
    fromUnixTimestamp64Milli({day_ms:Int64}, 'UTC') AS day_start,
    holders AS
    (
        SELECT
            host,
            gpu,
            ts,
            owner,
            program,
            sum(gpu_time_ms) AS attributed_ms,
            true AS is_listed
        FROM gua.process_ticks FINAL
        WHERE ts >= day_start
            AND ts < day_start + toIntervalDay(1)
            AND (empty({hosts:Array(String)}) OR has({hosts:Array(String)}, host))
            AND gpu_time_ms IS NOT NULL
        GROUP BY
            host,
            gpu,
            ts,
            owner,
            program
    )
SELECT
    if(holders.is_listed, 'listed', 'unlisted') AS kind,
    holders.owner AS owner,
    holders.program AS program,
    round(sum(if(holders.is_listed, ifNull(holders.attributed_ms, 0) * card.inside_part, card.gpu_ms)), 3) AS gpu_ms,
    sum(card.inside_ms) AS unsplit_ms,
    round(sumIf(if(holders.is_listed, ifNull(holders.attributed_ms, 0) * card.inside_part, card.gpu_ms), card.state = 'active'), 3) AS active_ms,
    round(sumIf(if(holders.is_listed, ifNull(holders.attributed_ms, 0) * card.inside_part, card.gpu_ms), card.state = 'idle-held'), 3) AS idle_held_ms,
    round(sumIf(if(holders.is_listed, ifNull(holders.attributed_ms, 0) * card.inside_part, card.gpu_ms), card.state = 'unknown'), 3) AS unknown_ms
FROM
(
    SELECT
        host,
        gpu,
        ts,
        inside_ms,
        inside_part,
        gpu_ms,
        state
    FROM gua_report.spans(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)})
    WHERE ts >= day_start
        AND ts < day_start + toIntervalDay(1)
        AND state != 'truly-idle'
) AS card
LEFT JOIN holders
    ON holders.host = card.host AND holders.gpu = card.gpu AND holders.ts = card.ts
GROUP BY
    kind,
    owner,
    program
