-- One row is one use of one card in one UTC hour, by owner and source of the allocation. The rows of a card and hour sum to its GPU time
-- with an allocation source.
CREATE OR REPLACE VIEW gua_public.allocation_hours $ON_CLUSTER
(
${CARD_COLUMNS},
    hour DateTime('UTC') COMMENT 'Start of the hour [UTC]',
    use String COMMENT 'used, held, used-by-others, empty, unallocated-use, free or unknown',
    allocation_source LowCardinality(String) COMMENT 'Source: slurm, kubernetes, gua or a name in a file; empty if unallocated or unknown',
    owner LowCardinality(Nullable(String)) COMMENT 'Owner of the allocation; NULL if unknown, or without an allocation',
    is_shared Bool COMMENT 'Whether others had processes there besides the owner',
    gpu_hours Float64 COMMENT 'GPU time of the use [h]'
)
$DEFINER
AS
SELECT
${CARD_VALUES},
    facts.hour AS hour,
    facts.use AS use,
    facts.source AS allocation_source,
    facts.owner AS owner,
    facts.is_shared AS is_shared,
    facts.gpu_time_ms / 3600000 AS gpu_hours
FROM gua.allocation_hours AS facts
${DESCRIBED}
COMMENT 'Hours of each card by use of its allocation'
