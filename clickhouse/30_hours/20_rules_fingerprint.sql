-- One row: a number that differs whenever the rules in force do. Counted hours carry that of the rules they were judged by.
-- The 7 in it stands for the rules as written in 20_rules and what 30_hours keeps of an hour: who changes either changes it.
CREATE OR REPLACE VIEW gua.rules_fingerprint $ON_CLUSTER
(
    fingerprint UInt64 COMMENT 'Hash of the settings in force',
    ticks_from DateTime('UTC') COMMENT 'Older hours stay as they were counted: their ticks are gone, or soon will be'
)
$DEFINER
AS
SELECT
    cityHash64(7, groupArray((key, value))) AS fingerprint,
    (
        -- In seconds, as a DateTime before 1970 comes out as one far ahead.
        SELECT if(
            count() = 0,
            toDateTime(0, 'UTC'),
            toDateTime(
                greatest(toInt64(intDiv(toUnixTimestamp(now()), 86400)) - toInt64(argMax(value, changed)) + 1, 0) * 86400,
                'UTC'
            )
        )
        FROM gua.settings
        WHERE key = 'keep_ticks_days'
    ) AS ticks_from
FROM
(
    SELECT
        key,
        value
    FROM gua.rules
    ORDER BY key
) AS sorted
COMMENT 'Fingerprint of the rules in force'
