"""Rights on a server for the schema's owner, the Collector's user, readers and BI tools.

``deploy/clickhouse`` has the same rights in ``users.xml`` and ``roles.sql``, for BI tools in ``users-bi.xml`` and
``roles-bi.sql``; a test compares them.
"""

from __future__ import annotations

from typing import Final

from gua.store.catalog import DATABASES, LANDING

OWNER, WRITER, READER, BI = "gua_owner", "gua_writer", "gua_reader", "gua_bi"
_OWNER_RIGHTS: Final = (
    "SELECT, INSERT, ALTER TABLE, ALTER VIEW, CREATE DATABASE, CREATE TABLE, CREATE VIEW, "
    "DROP TABLE, DROP VIEW, TRUNCATE, OPTIMIZE"
)
# Relations that gua_public's views read from other servers of a cluster. Those servers check the user's own rights:
# a view applies its owner's rights only on the server that received the query.
_QUERIED_ON_SHARDS: Final = (
    *("agents", "allocation_hours", "card_hours", "card_info", "card_seen", "card_states", "execution_idle_hours"),
    *("owner_hours", "prices", "process_states", "settings"),
)
_ENGINES: Final = ("MergeTree", "AggregatingMergeTree", "ReplacingMergeTree", "Null")


def owner_rights(*, cluster: bool = False) -> list[str]:
    """Return the rights that ``gua schema apply`` needs, as in ``SELECT, INSERT ON gua.*``."""
    rights = [f"{_OWNER_RIGHTS} ON {database}.*" for database in DATABASES]
    engines = list(_ENGINES)
    if cluster:
        engines += [*(f"Replicated{engine}" for engine in _ENGINES if engine != "Null"), "Distributed"]
        rights.append("CLUSTER, REMOTE ON *.*")
    return rights + [f"TABLE ENGINE ON {engine}" for engine in engines]


def owner_grants(user: str = OWNER, *, cluster: bool = False) -> list[str]:
    """Return GRANT statements that let ``user`` apply and change the schema, and nothing else."""
    return [f"GRANT {right} TO {user}" for right in owner_rights(cluster=cluster)]


def writer_grants(user: str = WRITER, *, cluster: bool = False) -> list[str]:
    """Return GRANT statements that let ``user`` insert points, and read nothing."""
    return [f"GRANT INSERT ON {table} TO {user}" for table in _landing(cluster=cluster)]


def reader_grants(user: str = READER, *, cluster: bool = False) -> list[str]:
    """Return statements that let ``user`` read all but raw points, which may include other producers' points."""
    return [
        f"GRANT SELECT, SHOW TABLES, SHOW COLUMNS ON gua.* TO {user}",
        f"GRANT SELECT ON gua_report.* TO {user}",
        f"GRANT SELECT ON gua_public.* TO {user}",
        *(f"REVOKE SELECT ON {table} FROM {user}" for table in _landing(cluster=cluster)),  # noqa: S608 - own names
    ]


def bi_grants(user: str = BI, *, cluster: bool = False) -> list[str]:
    """Return GRANT statements that let ``user`` read gua_public; on a cluster also the local tables behind it."""
    return [
        f"GRANT SELECT, SHOW TABLES, SHOW COLUMNS ON gua_public.* TO {user}",
        *(f"GRANT SELECT ON gua.{relation}_local TO {user}" for relation in _QUERIED_ON_SHARDS if cluster),
    ]


def _landing(*, cluster: bool) -> list[str]:
    # Another server of the cluster inserts and reads as the same user.
    return [*LANDING, *(f"{table}_local" for table in LANDING if cluster)]
