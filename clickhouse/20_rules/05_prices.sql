-- One row is the price of a GPU hour of one model from a time on, or the removal of that price.
-- Shard key: model
CREATE TABLE IF NOT EXISTS gua.prices${LOCAL} $ON_CLUSTER
(
    model String COMMENT 'Model of the GPU, as gua.cards has it',
    valid_from DateTime('UTC')
        COMMENT 'From when on it counts, until the next price of the model: the start of a UTC hour; 1970 for ever before',
    currency LowCardinality(String) COMMENT 'ISO 4217 code',
    per_gpu_hour Float64 COMMENT 'What an hour of a whole GPU costs; of a MIG instance its part',
    source Nullable(String) COMMENT 'Who says so',
    removed Bool DEFAULT false COMMENT 'Whether it was taken back',
    changed DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When it was set; the newest counts'
)
ENGINE = ${REPLICATED}ReplacingMergeTree(changed)
ORDER BY (model, valid_from)
$TABLE_SETTINGS
COMMENT 'Prices of GPU time; read with FINAL, and without what was removed'
