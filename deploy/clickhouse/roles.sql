-- The three users of a gua server, for servers whose users are made with SQL (users.xml beside it says the same).
-- Run it as an administrator, before `gua schema apply`, with passwords of your own:
--
--   clickhouse-client --multiquery --param_owner_password=… --param_writer_password=… --param_reader_password=… < roles.sql
--
-- Run it again after an upgrade: the two profiles are made anew, users and rights stay, and new rights are added.
-- A user for BI tools is in roles-bi.sql.
-- On a cluster add ON CLUSTER, and what `gua schema grants --cluster NAME` prints besides.

CREATE SETTINGS PROFILE OR REPLACE gua_reader SETTINGS
    readonly = 2,
    max_memory_usage = 2000000000 MIN 1 MAX 2000000000,
    max_temporary_data_on_disk_size_for_query = 10000000000 MIN 1 MAX 10000000000,
    max_execution_time = 60 MIN 1 MAX 600,
    max_threads = 4 MIN 1 MAX 4,
    max_rows_to_read = 5000000000 MIN 1 MAX 5000000000,
    max_result_rows = 10000000 MAX 10000000,
    max_result_bytes = 10000000000 MAX 10000000000,
    max_memory_usage_for_user = 6000000000 CONST,
    max_temporary_data_on_disk_size_for_user = 20000000000 CONST,
    max_concurrent_queries_for_user = 100 CONST,
    memory_usage_overcommit_max_wait_microseconds = 30000000 MIN 0 MAX 30000000,
    session_timezone = 'UTC',
    compile_expressions = 0,
    compile_aggregate_expressions = 0,
    max_untracked_memory MIN 0 MAX 4194304,
    memory_overcommit_ratio_denominator CONST,
    memory_overcommit_ratio_denominator_for_user CONST,
    use_concurrency_control CONST,
    os_thread_priority CONST,
    workload CONST,
    max_query_size MIN 1 MAX 1048576,
    max_parser_depth MIN 1 MAX 1000,
    max_parser_backtracks MIN 1 MAX 1000000,
    max_ast_depth MIN 1 MAX 1000,
    max_ast_elements MIN 1 MAX 50000,
    max_expanded_ast_elements MIN 1 MAX 500000,
    max_subquery_depth MIN 1 MAX 100,
    log_queries CONST;

CREATE SETTINGS PROFILE OR REPLACE gua_writer SETTINGS
    max_memory_usage = 3000000000 MIN 1 MAX 3000000000,
    max_memory_usage_for_user = 6000000000 CONST,
    max_execution_time = 120 MIN 1 MAX 120,
    max_threads = 4 MIN 1 MAX 4,
    max_rows_to_read = 100000000 MIN 1 MAX 100000000,
    max_concurrent_queries_for_user = 100 CONST,
    max_untracked_memory MIN 0 MAX 4194304,
    memory_overcommit_ratio_denominator CONST,
    memory_overcommit_ratio_denominator_for_user CONST,
    use_concurrency_control CONST,
    os_thread_priority CONST,
    workload CONST,
    max_query_size MIN 1 MAX 1048576,
    log_queries CONST;

CREATE USER IF NOT EXISTS gua_owner IDENTIFIED WITH sha256_password BY {owner_password:String};

CREATE USER IF NOT EXISTS gua_writer IDENTIFIED WITH sha256_password BY {writer_password:String};

CREATE USER IF NOT EXISTS gua_reader IDENTIFIED WITH sha256_password BY {reader_password:String};

ALTER USER gua_writer SETTINGS PROFILE 'gua_writer';

ALTER USER gua_reader SETTINGS PROFILE 'gua_reader';

GRANT SELECT, INSERT, ALTER TABLE, ALTER VIEW, CREATE DATABASE, CREATE TABLE, CREATE VIEW, DROP TABLE, DROP VIEW, TRUNCATE, OPTIMIZE ON gua.* TO gua_owner;

GRANT SELECT, INSERT, ALTER TABLE, ALTER VIEW, CREATE DATABASE, CREATE TABLE, CREATE VIEW, DROP TABLE, DROP VIEW, TRUNCATE, OPTIMIZE ON gua_report.* TO gua_owner;

GRANT SELECT, INSERT, ALTER TABLE, ALTER VIEW, CREATE DATABASE, CREATE TABLE, CREATE VIEW, DROP TABLE, DROP VIEW, TRUNCATE, OPTIMIZE ON gua_public.* TO gua_owner;

GRANT TABLE ENGINE ON MergeTree TO gua_owner;

GRANT TABLE ENGINE ON AggregatingMergeTree TO gua_owner;

GRANT TABLE ENGINE ON ReplacingMergeTree TO gua_owner;

GRANT TABLE ENGINE ON Null TO gua_owner;

GRANT INSERT ON gua.otel_metrics_gauge TO gua_writer;

GRANT INSERT ON gua.otel_metrics_sum TO gua_writer;

GRANT SELECT, SHOW TABLES, SHOW COLUMNS ON gua.* TO gua_reader;

GRANT SELECT ON gua_report.* TO gua_reader;

GRANT SELECT ON gua_public.* TO gua_reader;

REVOKE SELECT ON gua.otel_metrics_gauge FROM gua_reader;

REVOKE SELECT ON gua.otel_metrics_sum FROM gua_reader;
