"""Upgrade of an existing schema: tables only gain columns, and views that pass rows on are never dropped.

Collectors insert while a server's schema is applied. A point that lands before the views of ticks exist enters no
tick, though its sender got a success. So a landing table is created with a constraint that rejects every row;
senders retry until the last step drops it. Replicas of a table need equal constraints, also those that join later.
So with replicated tables no constraint is used: points enter only by the Distributed tables, which are created last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gua.store.catalog import SHUT, CatalogEntry, Formatter, changes
from gua.store.grants import LANDING
from gua.store.statements import Statement

_COLUMNS_BEGIN: Final = "\n(\n"


def steps(statements: Iterable[Statement], catalog: Mapping[str, CatalogEntry], formatted: Formatter) -> list[str]:
    """Return the idempotent SQL that upgrades ``catalog`` to ``statements``, in the order to run it.

    New landing tables reject rows afterwards, until :func:`openings` ran.
    """
    planned: list[str] = []
    for declared in in_order(statements):
        actual = catalog.get(declared.object_name)
        if actual is None or declared.kind in {"database", "view"}:
            planned.append(created(declared))
        else:
            planned.extend(sql for _, sql in changes(declared, actual, formatted) if sql)
    return planned


def in_order(statements: Iterable[Statement]) -> list[Statement]:
    """Return the statements with the Distributed landing tables and their views last, so that points come in last."""
    ordered = list(statements)
    entrances = {
        one.object_name for one in ordered if one.object_name in LANDING and "\nENGINE = Distributed(" in one.sql
    }
    return sorted(ordered, key=lambda one: bool(entrances & {one.object_name, one.target}))


def created(statement: Statement) -> str:
    """Return the SQL that creates an object; a new landing table gets the constraint that rejects rows."""
    if not _can_be_shut(statement):
        return statement.sql
    return statement.sql.replace(_COLUMNS_BEGIN, f"{_COLUMNS_BEGIN}    CONSTRAINT {SHUT} CHECK 0,\n", 1)


def openings(statements: Iterable[Statement], catalog: Mapping[str, CatalogEntry]) -> list[str]:
    """Return the final statements, which drop the constraint of landing tables that are new or still closed."""
    return [
        f"{one.altering} DROP CONSTRAINT IF EXISTS {SHUT}"
        for one in statements
        if _can_be_shut(one) and (one.object_name not in catalog or catalog[one.object_name].is_shut)
    ]


def _can_be_shut(statement: Statement) -> bool:
    return statement.object_name.removesuffix("_local") in LANDING and "\nENGINE = MergeTree " in statement.sql
