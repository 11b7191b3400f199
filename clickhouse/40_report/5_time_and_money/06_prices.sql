-- One row is one price and the time in which it counts; until_ms is NULL where no later one of the model ends it.
CREATE OR REPLACE VIEW gua_report.prices $ON_CLUSTER
$DEFINER
AS
SELECT
    model,
    price.currency AS currency,
    price.per_gpu_hour AS per_gpu_hour,
    toInt64(toUnixTimestamp(price.valid_from)) * 1000 AS valid_from_ms,
    if(place < length(every), toInt64(toUnixTimestamp(every[place + 1].valid_from)) * 1000, NULL) AS until_ms,
    price.source AS source
FROM
(
    SELECT
        model,
        arraySort(
            each -> each.valid_from,
            CAST(
                groupArray((valid_from, newest.currency, newest.per_gpu_hour, newest.source)),
                'Array(Tuple(
                    valid_from DateTime(\'UTC\'),
                    currency String,
                    per_gpu_hour Float64,
                    source Nullable(String)
                ))'
            )
        ) AS every
    FROM
    (
        -- By hour once more: where shards were added to a cluster, a price may stand on two of them.
        SELECT
            model,
            valid_from,
            CAST(
                argMax((toString(currency), per_gpu_hour, source, removed), changed),
                'Tuple(currency String, per_gpu_hour Float64, source Nullable(String), removed Bool)'
            ) AS newest
        FROM gua.prices FINAL
        GROUP BY
            model,
            valid_from
    )
    WHERE NOT newest.removed
    GROUP BY model
)
ARRAY JOIN
    every AS price,
    arrayEnumerate(every) AS place
ORDER BY
    model,
    valid_from_ms
