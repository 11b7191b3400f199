"""No point comes in before everything that reads it is there: Collectors insert while a server's schema is applied.

A point that lands before a view of ticks was made is in no tick, and its sender has been told that it is safe. So a
landing table is made with a constraint that no row meets: an insert is refused, which its sender tries again, until the
last step takes the constraint away. Replicas of a table must all have the same constraints, also one that joins later:
where tables are replicated points come in by the Distributed tables alone, and these are made last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gua.store.catalog import CatalogEntry
from gua.store.definition import Definition
from gua.store.grants import LANDING

CONSTRAINT: Final = "gua_schema_apply_has_not_ended"
_COLUMNS_BEGIN: Final = "\n(\n"


def in_order(definitions: Iterable[Definition]) -> list[Definition]:
    """Return the definitions so that on a cluster points cannot come in before the last of them is there."""
    given = list(definitions)
    entrances = {one.name for one in given if one.name in LANDING and "\nENGINE = Distributed(" in one.statement.sql}
    return sorted(given, key=lambda one: bool(entrances & {one.name, one.target}))


def created(definition: Definition) -> str:
    """Return the statement that makes something; a landing table takes no rows yet."""
    if not _can_be_shut(definition):
        return definition.statement.sql
    return definition.statement.sql.replace(
        _COLUMNS_BEGIN, f"{_COLUMNS_BEGIN}    CONSTRAINT {CONSTRAINT} CHECK 0,\n", 1
    )


def opened(definitions: Iterable[Definition], found: Mapping[str, CatalogEntry]) -> list[str]:
    """Return the statements that let points in, the last to run: of what was ``found`` before some may be shut."""
    return [
        f"{one.altering} DROP CONSTRAINT IF EXISTS {CONSTRAINT}"
        for one in definitions
        if _can_be_shut(one) and (one.name not in found or is_shut(found[one.name]))
    ]


def is_shut(there: CatalogEntry) -> bool:
    """Return whether a table takes no rows, as an apply was cut off."""
    return CONSTRAINT in there.create


def _can_be_shut(definition: Definition) -> bool:
    return definition.name.removesuffix("_local") in LANDING and "\nENGINE = MergeTree " in definition.statement.sql
