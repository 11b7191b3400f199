-- One row is one price and the time in which it counts; until_ms is NULL where no later one of the model ends it.
CREATE OR REPLACE VIEW gua_report.prices $ON_CLUSTER
$DEFINER
AS
SELECT
    model,
    one.2 AS currency,
    one.3 AS per_gpu_hour,
    toInt64(toUnixTimestamp(one.1)) * 1000 AS valid_from_ms,
    if(place < length(every), toInt64(toUnixTimestamp(every[place + 1].1)) * 1000, NULL) AS until_ms,
    one.4 AS source
FROM
(
    SELECT
        model,
        arraySort(each -> each.1, groupArray((valid_from, newest.1, newest.2, newest.3))) AS every
    FROM
    (
        -- By hour once more: where shards were added to a cluster, a price may stand on two of them.
        SELECT
            model,
            valid_from,
            argMax((toString(currency), per_gpu_hour, source, removed), changed) AS newest
        FROM gua.prices FINAL
        GROUP BY
            model,
            valid_from
    )
    WHERE NOT newest.4
    GROUP BY model
)
ARRAY JOIN
    every AS one,
    arrayEnumerate(every) AS place
ORDER BY
    model,
    valid_from_ms
