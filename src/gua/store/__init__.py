"""ClickHouse, embedded or a server, through clickhouse-connect; its only importer."""
