-- One row is the price of a GPU hour of one model from a time on, or the removal of that price.
-- Shard key: model
CREATE TABLE IF NOT EXISTS gua.prices${LOCAL} $ON_CLUSTER
(
    model String COMMENT 'Model of the GPU, as in gua.cards',
    valid_from DateTime('UTC') COMMENT 'Start of its validity, a UTC hour; it ends with the next price of the model; 1970: since ever',
    currency LowCardinality(String) COMMENT 'ISO 4217 code',
    per_gpu_hour Float64 COMMENT 'Price of an hour of a whole GPU; a MIG instance costs its share',
    source Nullable(String) COMMENT 'Origin of the price',
    removed Bool DEFAULT false COMMENT 'Whether it was removed',
    changed DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When it was set; the newest is valid'
)
ENGINE = ${REPLICATED}ReplacingMergeTree(changed)
ORDER BY (model, valid_from)
$TABLE_SETTINGS
COMMENT 'Prices of GPU hours; read with FINAL, without removed ones'
