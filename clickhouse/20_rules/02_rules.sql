-- One row is one setting of the rules that differs from its shipped default. The view gua.rules has all settings.
-- Shard key: key
CREATE TABLE IF NOT EXISTS gua.settings${LOCAL} $ON_CLUSTER
(
    key LowCardinality(String) COMMENT 'Name of the setting',
    value Float64 COMMENT 'Its value: a ratio, or bytes',
    changed DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When it was set; the newest is valid'
)
ENGINE = ${REPLICATED}ReplacingMergeTree(changed)
ORDER BY key
$TABLE_SETTINGS
COMMENT 'Changed settings of the rules; reports apply them to the whole window'
;
-- One row is one setting of the rules in force: the stored value, or the shipped default.
CREATE OR REPLACE VIEW gua.rules $ON_CLUSTER
(
    key String COMMENT 'Name of the setting',
    value Float64 COMMENT 'Value in force: a ratio, or bytes',
    is_default Bool COMMENT 'Whether it is the shipped default'
)
$DEFINER
AS
SELECT
    shipped.name AS key,
    if(has(stored.keys, key), stored.values[indexOf(stored.keys, key)], shipped.number) AS value,
    CAST(NOT has(stored.keys, key), 'Bool') AS is_default
FROM
(
    SELECT
        groupArray(name) AS keys,
        groupArray(newest) AS values
    FROM
    (
        -- Grouped by name: after shards were added to a cluster, two of them may store one setting.
        SELECT
            toString(key) AS name,
            argMax(value, changed) AS newest
        FROM gua.settings FINAL
        GROUP BY name
    )
) AS stored
ARRAY JOIN CAST(
    [
        ('active_utilization', 0.1),
        ('held_memory_bytes', 104857600.),
        ('held_memory_ratio', 0.)
    ],
    'Array(Tuple(name String, number Float64))'
) AS shipped
COMMENT 'The rules in force'
