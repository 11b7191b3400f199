"""ClickHouse, embedded or a server, through clickhouse-connect; its only importer."""

from gpu_usage_audit.store.database import Store, open_store

__all__ = ["Store", "open_store"]
