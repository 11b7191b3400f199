"""Tables and views of a store, read from system tables, and their differences from the shipped schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gua.store.statements import Statement, settings_of, type_on_one_line

DATABASES: Final = ("gua", "gua_report", "gua_public")
# Constraint name on a landing table that rejects inserts (upgrade.py).
SHUT: Final = "gua_schema_apply_has_not_ended"
Select = Callable[[str, Mapping[str, object] | None], list[Mapping[str, Any]]]
Formatter = Callable[[str], str]
"""Function that returns a query in the engine's own format."""
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
_REPLICA_PATH: Final = re.compile(r"\('[^']*', '[^']*'(?:, )?")


@dataclass(frozen=True, kw_only=True, slots=True)
class CatalogEntry:
    """One table or view; ``columns`` maps names to types."""

    engine: str
    engine_full: str
    create: str
    select: str
    columns: dict[str, str] = field(default_factory=dict)

    @property
    def ttl(self) -> str | None:
        """The TTL expression in the engine's format; ``None`` if rows never expire."""
        found = re.search(r" TTL (.+?)(?: SETTINGS |\Z)", self.engine_full)
        return found[1] if found else None

    @property
    def is_shut(self) -> bool:
        """Whether a landing table rejects inserts because ``gua schema apply`` was interrupted."""
        return SHUT in self.create

    @property
    def as_definer(self) -> bool:
        """Whether a view runs with its definer's rights (SQL SECURITY DEFINER)."""
        return "SQL SECURITY DEFINER" in self.create


@dataclass(frozen=True, kw_only=True, slots=True)
class Differences:
    """Schema differences: ``lines`` are errors, ``notes`` are extra objects, ``newer`` means this gua is too old."""

    lines: list[str]
    notes: list[str]
    newer: bool = False


def read_catalog(select: Select) -> dict[str, CatalogEntry]:
    """Return every table and view of gua's databases that the user may see, by ``database.name``."""
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
        if name in entries:  # otherwise it was created between the two queries
            entries[name].columns[row["name"]] = row["type"]
    return entries


def differences(
    statements: Iterable[Statement], found: Mapping[str, CatalogEntry], formatted: Formatter
) -> Differences:
    """Return the differences of the catalog ``found`` from what ``statements`` create, one line each."""
    lines: list[str] = []
    ours = {one.object_name: one for one in statements if one.kind != "database"}
    for name, wanted in ours.items():
        there = found.get(name)
        if there is None:
            lines.append(f"{name} is missing ({wanted.name})")
        else:
            lines.extend(line for line, _ in changes(wanted, there, formatted))
    notes = [f"{name} is not gua's ({there.engine})" for name, there in found.items() if name not in ours]
    return Differences(lines=lines, notes=notes)


def changes(wanted: Statement, there: CatalogEntry, formatted: Formatter) -> Iterator[tuple[str, str | None]]:
    """Yield each difference of an existing table or view, and the SQL that fixes it (``None`` if none can).

    An ordinary view is recreated instead; only a materialized view is altered.
    """
    return (_of_table if wanted.kind == "table" else _of_view)(wanted, there, formatted)


def _of_table(wanted: Statement, there: CatalogEntry, formatted: Formatter) -> Iterator[tuple[str, str | None]]:
    name = wanted.object_name
    engine = _engine(formatted(wanted.sql).rpartition(" ENGINE = ")[2])
    if _engine(there.engine_full) != engine:
        yield f"{name} has engine {_engine(there.engine_full)}, not {engine}", None
    yield from _of_columns(wanted, there)
    if there.is_shut:
        yield f"{name} takes no points, as gua schema apply was cut off", None
    ttl = formatted(f"SELECT {wanted.ttl}").removeprefix("SELECT ") if wanted.ttl else None
    if ttl != there.ttl:
        line = f"{name} keeps rows by TTL {there.ttl or 'none'}, not {ttl or 'none'}"
        yield line, f"{wanted.altering} {f'MODIFY TTL {ttl}' if ttl else 'REMOVE TTL'}"
    actual = settings_of(there.engine_full.partition(" SETTINGS ")[2])
    for setting, value in wanted.settings.items():
        if actual.get(setting) != value:
            line = f"{name} lacks the setting {setting} = {value}"
            yield line, f"{wanted.altering} MODIFY SETTING {setting} = {value}"


def _of_view(wanted: Statement, there: CatalogEntry, formatted: Formatter) -> Iterator[tuple[str, str | None]]:
    name = wanted.object_name
    engine = "View" if wanted.kind == "view" else "MaterializedView"
    if there.engine != engine:
        yield f"{name} is a {there.engine}, not a {engine}", None
        return
    if there.columns or engine != "View":  # a parameterized view lists no columns
        for line, _ in _of_columns(wanted, there):
            yield line, None
    if wanted.select and formatted(wanted.select) != there.select:
        yield f"{name} has another query", f"{wanted.altering} MODIFY QUERY {wanted.select}"
    if wanted.target and f" TO {wanted.target} " not in there.create:
        yield f"{name} fills another table than {wanted.target}", None
    if wanted.as_definer and not there.as_definer:
        line = f"{name} does not run with the rights of its definer"
        yield line, f"{wanted.altering} MODIFY DEFINER = CURRENT_USER SQL SECURITY DEFINER"


def _of_columns(wanted: Statement, there: CatalogEntry) -> Iterator[tuple[str, str | None]]:
    present = {name.partition(".")[0] for name in there.columns}  # a nested column is listed as its subcolumns
    place = "FIRST"
    for column in wanted.columns:
        found = there.columns.get(column.name)
        if column.name not in present:
            line = f"{wanted.object_name} lacks the column {column.name} {column.type}"
            yield line, f"{wanted.altering} ADD COLUMN IF NOT EXISTS {column.name} {column.declared} {place}"
        elif found is not None and type_on_one_line(found) != column.type:
            yield f"{wanted.object_name}.{column.name} is {type_on_one_line(found)}, not {column.type}", None
        place = f"AFTER {column.name}"


def _engine(engine_full: str) -> str:
    """Return an engine and its keys, without TTL, settings, comment and replica paths."""
    kept = re.split(r" TTL | SETTINGS | COMMENT '", engine_full, maxsplit=1)[0]
    if kept.startswith(("Replicated", "Shared")):
        kept = _REPLICA_PATH.sub("(", kept.removeprefix("Replicated").removeprefix("Shared"), count=1)
    return kept.replace("()", "")
