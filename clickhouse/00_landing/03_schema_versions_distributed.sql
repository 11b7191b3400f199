-- One row is one time that gua schema apply ran to its end, on whichever server it was told so.
CREATE TABLE IF NOT EXISTS gua.schema_versions $ON_CLUSTER
$COLUMNS
ENGINE = Distributed($CLUSTER, 'gua', 'schema_versions${LOCAL}', cityHash64(version))
COMMENT 'Versions of this schema, the newest counts'
