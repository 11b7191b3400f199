-- One row is one card: its description, and its first and last tick.
CREATE OR REPLACE VIEW gua_public.cards $ON_CLUSTER
(
${CARD_COLUMNS},
    gpu_fraction Float64 COMMENT 'Share of a whole GPU: 1, or slices / all slices [0 to 1]',
    mig Nullable(String) COMMENT 'none, parent (partitioned) or instance',
    parent Nullable(String) COMMENT 'UUID of the GPU of a MIG instance',
    pci Nullable(String) COMMENT 'PCI bus id',
    driver_version Nullable(String) COMMENT 'Version of the driver',
    source Nullable(String) COMMENT 'Origin of its ticks: agent, import, program, simulator',
    interval_seconds Nullable(Float64) COMMENT 'Nominal time from one tick to the next [s]',
    first_seen DateTime64(3, 'UTC') COMMENT 'Start of its first tick [UTC]',
    last_seen DateTime64(3, 'UTC') COMMENT 'Its newest tick [UTC]'
)
$DEFINER
AS
SELECT
${CARD_VALUES},
    facts.share AS gpu_fraction,
    facts.mig AS mig,
    facts.parent AS parent,
    facts.pci AS pci,
    facts.driver_version AS driver_version,
    facts.source AS source,
    facts.interval_ms / 1000 AS interval_seconds,
    facts.first_seen AS first_seen,
    facts.last_seen AS last_seen
FROM gua.cards AS facts
${DESCRIBED}
COMMENT 'All cards in the store'
