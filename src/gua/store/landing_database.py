"""Landing tables in another database, which a site's Collector filled before gua was installed.

The views over gua's landing tables are created a second time over these tables, and a backfill passes existing
points through the same queries. Storage is idempotent: a point that both process counts once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final

from gua.core.errors import UnavailableError, UsageError
from gua.store.catalog import CatalogEntry, Select
from gua.store.statements import Statement

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

OWN: Final = "gua"
TABLES: Final = ("otel_metrics_gauge", "otel_metrics_sum")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_SOURCE: Final = re.compile(rf"\bFROM {OWN}\.(?P<table>otel_metrics_\w+)")
_OTHER_SOURCE: Final = re.compile(r"\bFROM (?P<database>\w+)\.otel_metrics_(?:gauge|sum)\b")
_COLUMNS: Final = {
    "ResourceAttributes": "Map(",
    "ScopeName": "String",
    "MetricName": "",
    "Attributes": "Map(",
    "StartTimeUnix": "DateTime",
    "TimeUnix": "DateTime",
    "Value": "Float64",
    "Flags": "UInt32",
}
_SUM_COLUMNS: Final = {**_COLUMNS, "AggregationTemporality": "Int32", "IsMonotonic": "Bool"}
# Points per day that are backfilled in one statement; above, hour by hour, to stay within the query's time limit.
_ONE_STATEMENT: Final = 10_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Attached:
    """Result of attaching: ``days`` backfilled now, and the number of gua's ``points`` in them."""

    views: int
    days: int
    points: int
    whole_seconds: bool
    grants: tuple[str, ...]


def attached_databases(catalog: Mapping[str, CatalogEntry]) -> list[str]:
    """Return the other databases whose landing tables feed views of gua, sorted."""
    sources = (
        source["database"]
        for name, there in catalog.items()
        if there.engine == "MaterializedView"
        and (source := _OTHER_SOURCE.search(there.select))
        and name.endswith(f"_from_{source['database']}")
    )
    return sorted({*sources} - {OWN})


def attached(statements: Sequence[Statement], catalog: Mapping[str, CatalogEntry]) -> list[Statement]:
    """Return this version's statements for the existing views over other databases."""
    return [view for database in attached_databases(catalog) for view in over(database, statements)]


def over(database: str, statements: Sequence[Statement]) -> list[Statement]:
    """Return the views over gua's landing tables, rewritten for the tables of ``database``."""
    return [
        replace(
            view,
            name=f"{view.name} over {database}",
            sql=_SOURCE.sub(rf"FROM {database}.\g<table>", view.sql).replace(
                f" {view.object_name} ", f" {view.object_name}_from_{database} ", 1
            ),
        )
        for view in statements
        if view.kind == "materialized view" and _SOURCE.search(view.sql)
    ]


def require_tables(database: str, select: Select) -> bool:
    """Return whether the tables store whole seconds only. Raises UsageError, UnavailableError if they are unusable."""
    if not _NAME.fullmatch(database) or database == OWN:
        msg = f"--landing-database {database!r}: give the database in which a Collector keeps {' and '.join(TABLES)}"
        raise UsageError(msg)
    rows = select(
        "SELECT table, name, type FROM system.columns "
        "WHERE database = {database:String} AND table IN {tables:Array(String)}",
        {"database": database, "tables": list(TABLES)},
    )
    types = {(row["table"], row["name"]): str(row["type"]) for row in rows}
    for table in TABLES:
        if not any(of == table for of, _ in types):
            msg = f"there is no {database}.{table} that you may read: correct the name, or let an administrator run "
            raise UnavailableError(msg + "; ".join(grants(database, select)))
        for column, begins in (_SUM_COLUMNS if table == TABLES[1] else _COLUMNS).items():
            _require_column(
                f"{database}.{table}", column, begins, {name: t for (of, name), t in types.items() if of == table}
            )
    return not all(types[table, "TimeUnix"].startswith("DateTime64") for table in TABLES)


def _require_column(table: str, column: str, begins: str, types: Mapping[str, str]) -> None:
    declared = types.get(column)
    if declared is not None and begins in declared:
        return
    if column == "AggregationTemporality" and "AggTemp" in types:
        raise UnavailableError(
            f"{table} was made by an exporter before v0.110 and has AggTemp: upgrade the Collector, then run "
            f"ALTER TABLE {table} RENAME COLUMN AggTemp TO AggregationTemporality"
        )
    has = f"{column} {declared}" if declared else f"no column {column}"
    raise UnavailableError(f"{table} has {has}: it is not a table of the Collector")


def grants(database: str, select: Select) -> tuple[str, ...]:
    """Return GRANT statements for the rights that the views' owner needs on the tables."""
    user = str(select("SELECT currentUser() AS name", None)[0]["name"]).replace("`", "\\`")
    return tuple(f"GRANT SELECT ON {database}.{table} TO `{user}`" for table in TABLES)


def forget(database: str, client: Client) -> None:
    """Make the next backfill read every day again, as points may have arrived while no views existed."""
    client.command(
        "ALTER TABLE gua.backfilled_days DELETE WHERE landing = {landing:String} SETTINGS mutations_sync = 2",
        parameters={"landing": database},
    )


def backfill(
    database: str,
    views: Sequence[Statement],
    *,
    client: Client,
    select: Select,
    progress: Callable[[str], None],
) -> tuple[int, int]:
    """Backfill the points in the tables through ``views``; return the number of days and points.

    Skips days that an earlier backfill finished, except yesterday and later: an insert in flight while the views were
    created is picked up by the next backfill.
    """
    points: dict[date, int] = {}
    for table in TABLES:
        for row in select(_DAYS.format(source=f"{database}.{table}"), None):
            points[row["day"]] = points.get(row["day"], 0) + int(row["points"])
    done = {
        row["day"]
        for row in select("SELECT day FROM gua.backfilled_days FINAL WHERE landing = {name:String}", {"name": database})
    }
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    due = sorted(day for day in points if day not in done or day >= yesterday)
    # Newest first: most reports cover the last days.
    for number, day in enumerate(reversed(due), start=1):
        for view in views:
            for since, until in _slices(day, hourly=points[day] > _ONE_STATEMENT):
                client.command(_insert(view, client, since, until))
        client.command(
            "INSERT INTO gua.backfilled_days (landing, day) SELECT {landing:String}, {day:Date}",
            parameters={"landing": database, "day": day},
        )
        progress(f"{database}: day {number} of {len(due)}, {day}, {points[day]:,} points")
    return len(due), sum(points[day] for day in due)


_DAYS: Final = """
SELECT
    toDate(TimeUnix, 'UTC') AS day,
    count() AS points
FROM {source}
WHERE ScopeName = 'gua'
    AND TimeUnix >= toDateTime64('2000-01-01 00:00:00', 3, 'UTC')
    AND TimeUnix <= now() + INTERVAL 1 DAY
GROUP BY day
"""


def _slices(day: date, *, hourly: bool) -> Iterator[tuple[datetime, datetime]]:
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    step = timedelta(hours=1 if hourly else 24)
    for number in range(24 if hourly else 1):
        yield start + number * step, start + (number + 1) * step


def _insert(view: Statement, client: Client, since: datetime, until: datetime) -> str:
    # Names and times are generated by gua.
    inside = rf"(SELECT * FROM \g<0> WHERE TimeUnix >= {_moment(since)} AND TimeUnix < {_moment(until)})"  # noqa: S608 - see above
    query = re.sub(r"(?<=\bFROM )\w+\.otel_metrics_\w+", inside, view.select or "")
    # now64(3) is the arrival time of new points; for existing points that is unknown.
    query = query.replace("now64(3)", "NULL")
    columns = [row[0] for row in client.query(f"DESCRIBE ({query})").result_rows]
    return f"INSERT INTO {view.target} ({', '.join(columns)}) {query}"


def _moment(moment: datetime) -> str:
    return f"toDateTime64('{moment:%Y-%m-%d %H:%M:%S}', 3, 'UTC')"
