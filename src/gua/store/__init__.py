"""ClickHouse, embedded or a server, through clickhouse-connect; its only importer."""

from gua.store.database import Store, open_store

__all__ = ["Store", "open_store"]
