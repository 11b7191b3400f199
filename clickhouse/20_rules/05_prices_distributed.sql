-- One row is one price. Every shard reads this table, so all count with the same prices.
CREATE TABLE IF NOT EXISTS gua.prices $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'prices${LOCAL}', cityHash64(model))
COMMENT 'Prices of GPU time; read with FINAL, and without what was removed'
