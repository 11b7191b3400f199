"""From the schema that is there to this version's: tables only grow, and no view that rows pass through is dropped.

Collectors insert while a server's schema is applied. A point that lands before a view of ticks was made is in no tick,
and its sender has been told that it is safe. So a landing table is made with a constraint that no row meets: an insert
is refused, which its sender tries again, until the last step takes the constraint away. Replicas of a table must all
have the same constraints, also one that joins later: where tables are replicated points come in by the Distributed
tables alone, and these are made last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gua.store.catalog import SHUT, CatalogEntry, Formatter, changes
from gua.store.grants import LANDING
from gua.store.statements import Statement

_COLUMNS_BEGIN: Final = "\n(\n"


def steps(statements: Iterable[Statement], found: Mapping[str, CatalogEntry], formatted: Formatter) -> list[str]:
    """Return what brings ``found`` to what the statements make, in the order to run it; all of it may be run again.

    After the last of it landing tables that are new take no rows until they are opened (:func:`openings`).
    """
    planned: list[str] = []
    for wanted in in_order(statements):
        there = found.get(wanted.object_name)
        if there is None or wanted.kind in {"database", "view"}:
            planned.append(created(wanted))
        else:
            planned.extend(sql for _, sql in changes(wanted, there, formatted) if sql)
    return planned


def in_order(statements: Iterable[Statement]) -> list[Statement]:
    """Return the statements so that on a cluster points cannot come in before the last of them is there."""
    given = list(statements)
    entrances = {
        one.object_name for one in given if one.object_name in LANDING and "\nENGINE = Distributed(" in one.sql
    }
    return sorted(given, key=lambda one: bool(entrances & {one.object_name, one.target}))


def created(statement: Statement) -> str:
    """Return the SQL that makes something; a landing table takes no rows yet."""
    if not _can_be_shut(statement):
        return statement.sql
    return statement.sql.replace(_COLUMNS_BEGIN, f"{_COLUMNS_BEGIN}    CONSTRAINT {SHUT} CHECK 0,\n", 1)


def openings(statements: Iterable[Statement], found: Mapping[str, CatalogEntry]) -> list[str]:
    """Return the statements that let points in, the last to run: of what was ``found`` before some may be shut."""
    return [
        f"{one.altering} DROP CONSTRAINT IF EXISTS {SHUT}"
        for one in statements
        if _can_be_shut(one) and (one.object_name not in found or found[one.object_name].is_shut)
    ]


def _can_be_shut(statement: Statement) -> bool:
    return statement.object_name.removesuffix("_local") in LANDING and "\nENGINE = MergeTree " in statement.sql
