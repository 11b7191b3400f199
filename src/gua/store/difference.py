"""What of a store differs from the schema that ships with gua, a line each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gua.store.catalog import CatalogEntry
from gua.store.definition import Definition
from gua.store.entrance import is_shut
from gua.store.upgrade import RETIRED, Formatter, formatted_ttl, missing_columns, other_settings, shown_ttl

# Of tables that were made before they lay otherwise, how they lie now and how they lay: the rows are the same, and only
# questions of a few weeks of many hosts take longer. No table gets another order.
OLDER_ORDERS: Final = {"gua.host_hours": ("ORDER BY (toMonday(hour), host, hour)", "ORDER BY (host, hour)")}
_REPLICA_PATH = re.compile(r"\('[^']*', '[^']*'(?:, )?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Differences:
    """``lines`` say what is wrong; ``notes`` what is there besides; ``newer`` that this gua is too old."""

    lines: list[str]
    notes: list[str]
    newer: bool = False


def differences(
    definitions: Iterable[Definition], found: Mapping[str, CatalogEntry], formatted: Formatter
) -> Differences:
    """Return what differs; ``formatted`` is the engine's own way of writing a query."""
    lines: list[str] = []
    ours = {definition.name: definition for definition in definitions if definition.kind != "database"}
    for name, definition in ours.items():
        there = found.get(name)
        if there is None:
            lines.append(f"{name} is missing ({definition.statement.name})")
        elif definition.kind == "table":
            lines.extend(_of_table(definition, there, formatted))
        else:
            lines.extend(_of_view(definition, there, formatted))
    notes = [_of_other(name, there) for name, there in found.items() if name not in ours]
    return Differences(lines=lines, notes=notes)


def _of_other(name: str, there: CatalogEntry) -> str:
    if name in RETIRED:
        return f"{name} is an earlier version's: gua schema apply drops it"
    return f"{name} is not gua's ({there.engine})"


def _of_table(definition: Definition, there: CatalogEntry, formatted: Formatter) -> Iterator[str]:
    name = definition.name
    wanted = _engine(_after_engine(formatted(definition.statement.sql)))
    older = OLDER_ORDERS.get(name.removesuffix("_local"))
    if _engine(there.engine_full) not in {wanted, wanted.replace(*older) if older else wanted}:
        yield f"{name} has engine {_engine(there.engine_full)}, not {wanted}"
    yield from _of_columns(definition, there)
    if is_shut(there):
        yield f"{name} takes no points, as gua schema apply was cut off"
    ttl = formatted_ttl(definition, formatted)
    if ttl != shown_ttl(there):
        yield f"{name} keeps rows by TTL {shown_ttl(there) or 'none'}, not {ttl or 'none'}"
    for setting, value in other_settings(definition, there).items():
        yield f"{name} lacks the setting {setting} = {value}"


def _of_view(definition: Definition, there: CatalogEntry, formatted: Formatter) -> Iterator[str]:
    name = definition.name
    engine = "View" if definition.kind == "view" else "MaterializedView"
    if there.engine != engine:
        yield f"{name} is a {there.engine}, not a {engine}"
        return
    yield from _of_columns(definition, there)
    if definition.select and formatted(definition.select) != there.select:
        yield f"{name} has another query"
    if definition.target and f" TO {definition.target} " not in there.create:
        yield f"{name} fills another table than {definition.target}"
    if definition.as_definer and "SQL SECURITY DEFINER" not in there.create:
        yield f"{name} does not run with the rights of its definer"


def _of_columns(definition: Definition, there: CatalogEntry) -> Iterator[str]:
    if there.engine == "View" and not there.columns:  # a parameterised one shows none
        return
    for column in missing_columns(definition, there):
        yield f"{definition.name} lacks the column {column.name} {column.type}"
    for column in definition.columns:
        found = there.columns.get(column.name)
        if found is not None and _type(found) != _type(column.type):
            yield f"{definition.name}.{column.name} is {_type(found)}, not {_type(column.type)}"


def _type(text: str) -> str:
    """Return a type in one way of writing."""
    one_line = re.sub(r"\s+", " ", text).replace("( ", "(").replace(" )", ")")
    return "Bool" if one_line == "Boolean" else one_line


def _after_engine(create: str) -> str:
    return create.rpartition(" ENGINE = ")[2]


def _engine(engine_full: str) -> str:
    """Return an engine with its keys, without TTL, settings and comment, and without the paths of a replica."""
    kept = re.split(r" TTL | SETTINGS | COMMENT '", engine_full, maxsplit=1)[0]
    if kept.startswith(("Replicated", "Shared")):
        kept = _REPLICA_PATH.sub("(", kept.removeprefix("Replicated").removeprefix("Shared"), count=1)
    return kept.replace("()", "")
