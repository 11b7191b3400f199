"""From the schema that is there to this version's: tables only grow, and no view that rows pass through is dropped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from gua.store import entrance, hours
from gua.store.catalog import CatalogEntry
from gua.store.definition import DeclaredColumn, Definition, settings_of

# Agents tell idle time and its energy in steps (core/idle_time.py): as numbers of steps it takes half of the room.
_PACK_IDLE_TIME: Final = "ALTER TABLE gua.card_ticks${LOCAL} ${ON_CLUSTER} " + ", ".join(
    f"MODIFY COLUMN {column} CODEC(GCD, ZSTD(1))" for column in ("idle_time_ms", "idle_energy_mj")
)
# Statements by the version that needs them, run once all objects are there where an older schema was before. An
# upgrade that was cut off runs them again, so they must not mind. Tokens as in the SQL files.
AFTER_UPGRADE: Final[Mapping[int, tuple[str, ...]]] = {
    2: (hours.MARK_ALL,),
    8: (_PACK_IDLE_TIME,),
}
# Run once more where something may be landing meanwhile, when inserts that began before the new objects were there are
# over: so long after them.
AFTER_INSERTS: Final[Mapping[int, tuple[str, ...]]] = {}
INSERTS_SECONDS: Final = 10
# Views that an earlier version had and this one has not. Nothing that holds rows is ever in this list, and nothing that
# points pass through: of materialized views those alone that a server asks by itself.
RETIRED: Final[tuple[str, ...]] = (
    "gua_report.days",
    "gua_report.who",
    "gua_report.presences",
    "gua_report.claims",
    "gua_report.inventory",
    "gua_report.current",
    "gua_report.identities",
    "gua_report.idle_episodes",
    "gua_report.older_rule",
    "gua_report.allocation",
    "gua.count_hours",
    "gua.count_days",
)

Formatter = Callable[[str], str]


def steps(definitions: Iterable[Definition], found: Mapping[str, CatalogEntry], formatted: Formatter) -> list[str]:
    """Return the statements that bring what was ``found`` to the ``definitions``, in the order to run them.

    After the last of them landing tables that are new take no rows until they are opened (``entrance``). Every one may
    be run again. ``formatted`` is the engine's own way of writing a query.
    """
    planned: list[str] = []
    for definition in entrance.in_order(definitions):
        there = found.get(definition.name)
        if there is None or definition.kind in {"database", "view"}:
            planned.append(entrance.created(definition))
        elif definition.kind == "table":
            planned.extend(_grown(definition, there, formatted))
        else:
            planned.extend(_changed_view(definition, there, formatted))
    return planned


def missing_columns(definition: Definition, there: CatalogEntry) -> list[DeclaredColumn]:
    """Return the declared columns that an existing table lacks; a nested one is there by its first part."""
    return [
        column
        for column in definition.columns
        if column.name not in there.columns and not any(name.startswith(f"{column.name}.") for name in there.columns)
    ]


def other_settings(definition: Definition, there: CatalogEntry) -> dict[str, str]:
    """Return the declared settings that an existing table has not, or has otherwise."""
    _, _, shown = there.engine_full.partition(" SETTINGS ")
    has = settings_of(shown) if shown else {}
    return {name: value for name, value in definition.settings.items() if has.get(name) != value}


def shown_ttl(there: CatalogEntry) -> str | None:
    """Return the TTL of an existing table as the engine writes it."""
    found = re.search(r" TTL (.+?)(?: SETTINGS |\Z)", there.engine_full)
    return found[1] if found else None


def formatted_ttl(definition: Definition, formatted: Formatter) -> str | None:
    """Return the declared TTL as the engine writes it."""
    return formatted(f"SELECT {definition.ttl}").removeprefix("SELECT ") if definition.ttl else None


def _grown(definition: Definition, there: CatalogEntry, formatted: Formatter) -> list[str]:
    planned: list[str] = []
    if lacking := missing_columns(definition, there):
        names = [column.name for column in definition.columns]
        additions = [
            f"ADD COLUMN IF NOT EXISTS {column.name} {column.declared}{_place(names, column.name)}"
            for column in lacking
        ]
        planned.append(f"{definition.altering} {', '.join(additions)}")
    if there.engine in {"Null", "Distributed"}:
        return planned
    wanted = formatted_ttl(definition, formatted)
    if wanted != shown_ttl(there):
        planned.append(f"{definition.altering} {f'MODIFY TTL {wanted}' if wanted else 'REMOVE TTL'}")
    if others := other_settings(definition, there):
        changes = ", ".join(f"{name} = {value}" for name, value in others.items())
        planned.append(f"{definition.altering} MODIFY SETTING {changes}")
    return planned


def _place(names: list[str], name: str) -> str:
    before = names.index(name)
    return f" AFTER {names[before - 1]}" if before else " FIRST"


def _changed_view(definition: Definition, there: CatalogEntry, formatted: Formatter) -> list[str]:
    planned: list[str] = []
    if definition.select and formatted(definition.select) != there.select:
        planned.append(f"{definition.altering} MODIFY QUERY {definition.select}")
    if definition.as_definer and "SQL SECURITY DEFINER" not in there.create:
        planned.append(f"{definition.altering} MODIFY DEFINER = CURRENT_USER SQL SECURITY DEFINER")
    return planned
