-- One row is the fingerprint of the rules in force; rolled-up hours store it. Increase its first number, 7, with each change of the rules
-- in 20_rules or of the stored columns in 30_hours.
CREATE OR REPLACE VIEW gua.rules_fingerprint $ON_CLUSTER
$DEFINER
AS
SELECT
    cityHash64(7, groupArray((key, value))) AS fingerprint,
    (
        -- In seconds: a DateTime before 1970 would wrap around to the far future.
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
