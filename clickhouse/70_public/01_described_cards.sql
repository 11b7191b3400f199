-- One row is one card with its name and model, and the labels of its host. All views of gua_public join it.
CREATE OR REPLACE VIEW gua.described_cards $ON_CLUSTER
$DEFINER
AS
SELECT
    card.host AS host,
    card.gpu AS gpu,
    card.gpu_index AS gpu_index,
    card.name AS card,
    ifNull(card.model, card.name) AS model,
    host_labels.every AS labels
FROM
(
    SELECT
        host,
        gpu,
        gpu_index,
        name,
        model
    FROM gua.card_info FINAL
    -- After shards were added to a cluster, two of them may store one card.
    ORDER BY ts DESC
    LIMIT 1 BY
        host,
        gpu
) AS card
LEFT JOIN
(
    SELECT
        host,
        CAST(argMax(card_info.labels, ts), 'Map(String, String)') AS every
    FROM gua.card_info FINAL
    GROUP BY host
) AS host_labels
    ON host_labels.host = card.host
COMMENT 'Cards with their name, model and labels of the host'
