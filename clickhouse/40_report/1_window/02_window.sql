-- One row is one setting of the rules in force.
CREATE OR REPLACE VIEW gua_report.rules $ON_CLUSTER
$DEFINER
AS
SELECT
    key,
    value,
    is_default
FROM gua.rules
;
-- One row is one host and source of ticks: its number of cards, and the first and last time in the store.
CREATE OR REPLACE VIEW gua_report.extent $ON_CLUSTER
$DEFINER
AS
SELECT
    toString(host) AS host,
    ifNull(source, 'agent') AS source,
    count() AS cards,
    min(toUnixTimestamp64Milli(first_seen)) AS first_ms,
    max(toUnixTimestamp64Milli(last_seen)) AS last_ms,
    max(ifNull(interval_ms, 0)) AS interval_ms
FROM gua.cards
WHERE ${OF_HOSTS}
GROUP BY ALL
ORDER BY
    host,
    source
;
-- One row is one card with ticks in the window: its newest names.
CREATE OR REPLACE VIEW gua_report.named_cards $ON_CLUSTER
$DEFINER
AS
SELECT
    toString(host) AS host,
    toString(gpu) AS gpu,
    gpu_index,
    name,
    model,
    mig
FROM gua.cards
WHERE ${OF_HOSTS}
    AND last_seen > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    AND first_seen < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
ORDER BY
    host,
    gpu
;
-- One row is one UTC hour of {hours} (hours since 1970) with card ticks, and roughly how many.
CREATE OR REPLACE VIEW gua_report.hour_ticks $ON_CLUSTER
$DEFINER
AS
SELECT
    toInt64(${TICK_HOUR}) AS hour,
    count() AS card_ticks
FROM gua.card_ticks
WHERE ${TICK_HOUR} IN {hours:Array(Int64)}
    AND ${OF_HOSTS}
GROUP BY hour
ORDER BY hour
