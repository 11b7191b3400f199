-- One row is one card, as described by its newest tick.
CREATE TABLE IF NOT EXISTS gua.card_info${LOCAL} $ON_CLUSTER
(
    host LowCardinality(String) COMMENT 'host.name of the sender',
    gpu LowCardinality(String) COMMENT 'NVML UUID of the card or MIG instance',
    ts DateTime64(3, 'UTC') COMMENT 'Newest tick that described the card',
    gpu_index Nullable(UInt16) COMMENT 'NVML index of the card; may change with a boot',
    name Nullable(String) COMMENT 'Device name',
    model Nullable(String) COMMENT 'Model of the whole GPU',
    vendor Nullable(String) COMMENT 'Vendor',
    driver_version Nullable(String) COMMENT 'Version of the driver',
    pci Nullable(String) COMMENT 'PCI bus id',
    mig Nullable(String) COMMENT 'none, parent (partitioned) or instance',
    parent Nullable(String) COMMENT 'UUID of the GPU of a MIG instance',
    memory_shared Nullable(Bool) COMMENT 'Whether the card uses the host''s memory',
    source Nullable(String) COMMENT 'Origin: agent, import, program, simulator',
    interval_ms Nullable(UInt32) COMMENT 'Nominal sampling interval [ms]',
    labels Map(LowCardinality(String), String) COMMENT 'All resource attributes of the sender'
)
ENGINE = ${REPLICATED}ReplacingMergeTree(ts)
ORDER BY (host, gpu)
$TABLE_SETTINGS
COMMENT 'Newest description of each card; read with FINAL'
