-- One row is one of gua.owner_hours, by the name that it had before.
CREATE TABLE IF NOT EXISTS gua.identity_hours $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'identity_hours${LOCAL}', cityHash64(host))
COMMENT 'Old name of gua.owner_hours; goes away in the next version'
