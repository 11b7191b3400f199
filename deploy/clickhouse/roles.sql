-- The three users of a gua server, for servers whose users are made with SQL (users.xml beside it says the same).
-- Run it as an administrator, before `gua schema apply`, with passwords of your own:
--
--   clickhouse-client --multiquery --param_owner_password=… --param_writer_password=… --param_reader_password=… < roles.sql
--
-- On a cluster add ON CLUSTER, and what `gua schema grants --cluster NAME` prints besides.

CREATE USER IF NOT EXISTS gua_owner IDENTIFIED WITH sha256_password BY {owner_password:String};

CREATE USER IF NOT EXISTS gua_writer IDENTIFIED WITH sha256_password BY {writer_password:String};

CREATE SETTINGS PROFILE IF NOT EXISTS gua_reader SETTINGS
    max_memory_usage = 2000000000,
    max_execution_time = 60 MIN 1 MAX 600 CHANGEABLE_IN_READONLY,
    max_rows_to_read = 5000000000,
    max_result_rows = 10000000,
    session_timezone = 'UTC',
    query_plan_merge_expressions = 0,
    compile_expressions = 0,
    compile_aggregate_expressions = 0,
    readonly = 1;

CREATE USER IF NOT EXISTS gua_reader IDENTIFIED WITH sha256_password BY {reader_password:String} SETTINGS PROFILE 'gua_reader';

GRANT SELECT, INSERT, ALTER TABLE, ALTER VIEW, CREATE DATABASE, CREATE TABLE, CREATE VIEW, DROP TABLE, DROP VIEW, TRUNCATE, OPTIMIZE, SYSTEM VIEWS ON gua.* TO gua_owner;

GRANT SELECT, INSERT, ALTER TABLE, ALTER VIEW, CREATE DATABASE, CREATE TABLE, CREATE VIEW, DROP TABLE, DROP VIEW, TRUNCATE, OPTIMIZE, SYSTEM VIEWS ON gua_report.* TO gua_owner;

GRANT TABLE ENGINE ON MergeTree TO gua_owner;

GRANT TABLE ENGINE ON AggregatingMergeTree TO gua_owner;

GRANT TABLE ENGINE ON ReplacingMergeTree TO gua_owner;

GRANT TABLE ENGINE ON Null TO gua_owner;

GRANT INSERT ON gua.otel_metrics_gauge TO gua_writer;

GRANT INSERT ON gua.otel_metrics_sum TO gua_writer;

GRANT SELECT, SHOW TABLES, SHOW COLUMNS ON gua.* TO gua_reader;

GRANT SELECT ON gua_report.* TO gua_reader;

REVOKE SELECT ON gua.otel_metrics_gauge FROM gua_reader;

REVOKE SELECT ON gua.otel_metrics_sum FROM gua_reader;
