-- One row is one part of a card tick with its use. The parts of a tick sum to its GPU time. A tick without an allocation source has no
-- parts. core/allocation.py implements the same rule; one folder of cases tests both.
CREATE OR REPLACE VIEW gua.allocation_states${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'Host the card is in',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    ts DateTime64(3, 'UTC') COMMENT 'End of the tick',
    source LowCardinality(String) COMMENT 'Source: slurm, kubernetes, gua or a name in a file; empty if unallocated or unknown',
    allocation_id LowCardinality(String) COMMENT 'Id at the source; empty without an allocation',
    owner LowCardinality(Nullable(String)) COMMENT 'Owner of the allocation',
    use String COMMENT 'used, held, used-by-others, empty, unallocated-use, free or unknown',
    relation LowCardinality(Nullable(String))
        COMMENT 'Processes there: owner, both, others, co-owners, nobody, sole, unknown; NULL without an allocation',
    is_shared Bool COMMENT 'Whether others had processes there besides the owner',
    state String COMMENT 'State of the card: active, idle-held, truly-idle or unknown',
    duration_ms UInt32 COMMENT 'Time of the tick that the allocation covers; without one, of the tick [ms]',
    gpu_time_ms UInt32 COMMENT 'GPU time of the part [ms]'
)
$DEFINER
AS
WITH
    ${STATES},
    ${USES},
    checked_ticks AS
    (
        SELECT
            ${WHOLE_CHECKED_TICK}
        FROM gua.card_states${LOCAL}
        WHERE allocation IS NOT NULL AND duration_ms > 0
    ),
    allocations AS
    (
        SELECT *
        FROM gua.allocation_ticks${LOCAL} FINAL
    ),
${USE_TICKS}
SELECT
    host,
    gpu,
    ts,
    source,
    allocation_id,
    owner,
    USE_NAMES[use_code] AS use,
    if(source = '', NULL, relation) AS relation,
    is_shared,
    STATE_NAMES[least(state_code, UNKNOWN)] AS state,
    part_until_ms - part_since_ms AS duration_ms,
    intDiv(part_us, 1000) AS gpu_time_ms
FROM use_ticks AS parts
COMMENT 'Parts of card ticks by use'
