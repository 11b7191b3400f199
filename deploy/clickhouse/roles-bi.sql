-- A user for BI tools and notebooks, who sees database gua_public and nothing else, within the limits of gua_reader
-- (users-bi.xml beside it says the same). Run it as an administrator, after roles.sql, with a password of your own:
--
--   clickhouse-client --multiquery --param_bi_password=… < roles-bi.sql
--
-- On a cluster add ON CLUSTER, and what `gua schema grants --cluster NAME` prints besides.

CREATE USER IF NOT EXISTS gua_bi IDENTIFIED WITH sha256_password BY {bi_password:String};

ALTER USER gua_bi SETTINGS PROFILE 'gua_reader';

GRANT SELECT, SHOW TABLES, SHOW COLUMNS ON gua_public.* TO gua_bi;
