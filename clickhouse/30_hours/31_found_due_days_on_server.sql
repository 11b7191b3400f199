-- One row says that days are due. Nothing is kept: gua.count_found_days is asked where a row comes, and not where none does.
CREATE TABLE IF NOT EXISTS gua.found_due_days $ON_CLUSTER
(
    due UInt64 COMMENT 'Days of hosts that are due'
)
ENGINE = Null
COMMENT 'Passes on that days are due to what counts them; keeps nothing'
