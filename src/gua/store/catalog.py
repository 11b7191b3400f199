"""What is in the databases now, as the engine tells it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

DATABASES: Final = ("gua", "gua_report", "gua_public")
Select = Callable[[str, Mapping[str, object] | None], list[Mapping[str, Any]]]
_TABLES: Final = """
SELECT
    database,
    name,
    engine,
    engine_full,
    create_table_query,
    as_select
FROM system.tables
WHERE database IN {databases:Array(String)}
    AND NOT startsWith(name, '.inner')
    AND NOT startsWith(name, '_tmp_replace_')
"""
_COLUMNS: Final = """
SELECT
    database,
    table,
    name,
    type
FROM system.columns
WHERE database IN {databases:Array(String)}
ORDER BY
    database,
    table,
    position
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class CatalogEntry:
    """One table or view; ``columns`` are types by name."""

    engine: str
    engine_full: str
    create: str
    select: str
    columns: dict[str, str] = field(default_factory=dict)


def read_catalog(select: Select) -> dict[str, CatalogEntry]:
    """Return every table and view of our databases that the user may see, by name with its database."""
    parameters = {"databases": list(DATABASES)}
    entries = {
        f"{row['database']}.{row['name']}": CatalogEntry(
            engine=row["engine"],
            engine_full=row["engine_full"],
            create=row["create_table_query"],
            select=row["as_select"],
        )
        for row in select(_TABLES, parameters)
    }
    for row in select(_COLUMNS, parameters):
        name = f"{row['database']}.{row['table']}"
        if name in entries:  # else it was made between the two
            entries[name].columns[row["name"]] = row["type"]
    return entries
