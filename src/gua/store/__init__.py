"""ClickHouse store, embedded (chDB) or a server. Only this package imports clickhouse-connect."""
