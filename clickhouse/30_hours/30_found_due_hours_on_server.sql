-- One row says that hours are due. Nothing is kept: gua.count_found_hours is asked where a row comes, and not where none does.
CREATE TABLE IF NOT EXISTS gua.found_due_hours $ON_CLUSTER
(
    due UInt64 COMMENT 'Hours of hosts that are due'
)
ENGINE = Null
COMMENT 'Passes on that hours are due to what counts them; keeps nothing'
