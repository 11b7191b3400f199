"""Tables and views of a store, read from system tables; their differences from the shipped schema, and its upgrade.

Tables only gain columns, and views that pass rows on are never dropped. Collectors insert while a server's schema is
applied. A point that lands before the views of ticks exist enters no tick, though its sender got a success. So a
landing table is created with a constraint that rejects every row; senders retry until the last step drops it. Replicas
of a table need equal constraints, also those that join later. So with replicated tables no constraint is used: points
enter only by the Distributed tables, which are created last.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gua.store.statements import Statement, parse_settings, type_on_one_line

DATABASES: Final = ("gua", "gua_report", "gua_public")
LANDING: Final = ("gua.otel_metrics_gauge", "gua.otel_metrics_sum")
# Constraint name on a landing table that rejects inserts.
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
_COLUMNS_BEGIN: Final = "\n(\n"
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
        match = re.search(r" TTL (.+?)(?: SETTINGS |\Z)", self.engine_full)
        return match[1] if match else None

    @property
    def is_shut(self) -> bool:
        """Whether a landing table rejects inserts because ``gua schema apply`` was interrupted."""
        return SHUT in self.create


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
    statements: Iterable[Statement], catalog: Mapping[str, CatalogEntry], formatted: Formatter
) -> Differences:
    """Return the differences of ``catalog`` from what ``statements`` create, one line each."""
    lines: list[str] = []
    ours = {one.object_name: one for one in statements if one.kind != "database"}
    for name, declared in ours.items():
        actual = catalog.get(name)
        if actual is None:
            lines.append(f"{name} is missing ({declared.name})")
        else:
            lines.extend(line for line, _ in changes(declared, actual, formatted))
    notes = [f"{name} is not gua's ({actual.engine})" for name, actual in catalog.items() if name not in ours]
    return Differences(lines=lines, notes=notes)


def changes(declared: Statement, actual: CatalogEntry, formatted: Formatter) -> Iterator[tuple[str, str | None]]:
    """Yield each difference of an existing table or view, and the SQL that fixes it (``None`` if none can).

    An ordinary view is recreated instead; only a materialized view is altered.
    """
    return (_of_table if declared.kind == "table" else _of_view)(declared, actual, formatted)


def _of_table(declared: Statement, actual: CatalogEntry, formatted: Formatter) -> Iterator[tuple[str, str | None]]:
    name = declared.object_name
    engine = _engine(formatted(declared.sql).rpartition(" ENGINE = ")[2])
    if _engine(actual.engine_full) != engine:
        yield f"{name} has engine {_engine(actual.engine_full)}, not {engine}", None
    yield from _of_columns(declared, actual)
    if actual.is_shut:
        yield f"{name} takes no points, as gua schema apply was cut off", None
    ttl = formatted(f"SELECT {declared.ttl}").removeprefix("SELECT ") if declared.ttl else None
    if ttl != actual.ttl:
        line = f"{name} keeps rows by TTL {actual.ttl or 'none'}, not {ttl or 'none'}"
        yield line, f"{declared.altering} {f'MODIFY TTL {ttl}' if ttl else 'REMOVE TTL'}"
    settings = parse_settings(actual.engine_full.partition(" SETTINGS ")[2])
    for setting, value in declared.settings.items():
        if settings.get(setting) != value:
            line = f"{name} lacks the setting {setting} = {value}"
            yield line, f"{declared.altering} MODIFY SETTING {setting} = {value}"


def _of_view(declared: Statement, actual: CatalogEntry, formatted: Formatter) -> Iterator[tuple[str, str | None]]:
    name = declared.object_name
    engine = "View" if declared.kind == "view" else "MaterializedView"
    if actual.engine != engine:
        yield f"{name} is a {actual.engine}, not a {engine}", None
        return
    if actual.columns or engine != "View":  # a parameterized view lists no columns
        for line, _ in _of_columns(declared, actual):
            yield line, None
    if declared.select and formatted(declared.select) != actual.select:
        yield f"{name} has another query", f"{declared.altering} MODIFY QUERY {declared.select}"
    if declared.target and f" TO {declared.target} " not in actual.create:
        yield f"{name} fills another table than {declared.target}", None
    if declared.as_definer and "SQL SECURITY DEFINER" not in actual.create:
        line = f"{name} does not run with the rights of its definer"
        yield line, f"{declared.altering} MODIFY DEFINER = CURRENT_USER SQL SECURITY DEFINER"


def _of_columns(declared: Statement, actual: CatalogEntry) -> Iterator[tuple[str, str | None]]:
    present = {name.partition(".")[0] for name in actual.columns}  # a nested column is listed as its subcolumns
    place = "FIRST"
    for column in declared.columns:
        actual_type = actual.columns.get(column.name)
        if column.name not in present:
            line = f"{declared.object_name} lacks the column {column.name} {column.type}"
            yield line, f"{declared.altering} ADD COLUMN IF NOT EXISTS {column.name} {column.declared} {place}"
        elif actual_type is not None and type_on_one_line(actual_type) != column.type:
            yield f"{declared.object_name}.{column.name} is {type_on_one_line(actual_type)}, not {column.type}", None
        place = f"AFTER {column.name}"


def _engine(engine_full: str) -> str:
    """Return an engine and its keys, without TTL, settings, comment and replica paths."""
    kept = re.split(r" TTL | SETTINGS | COMMENT '", engine_full, maxsplit=1)[0]
    if kept.startswith(("Replicated", "Shared")):
        kept = _REPLICA_PATH.sub("(", kept.removeprefix("Replicated").removeprefix("Shared"), count=1)
    return kept.replace("()", "")


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
