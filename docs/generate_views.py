"""Write docs/views.md from the COMMENTs of the shipped SQL, or with --check say whether it is current.

Run: .venv/bin/python docs/generate_views.py [--check]
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple

from gua.store.statements import Statement, load, server_tokens

PAGE = Path(__file__).parent / "views.md"
VIEW_KIND: Final = "CREATE OR REPLACE VIEW"
# In the order in which a newcomer needs them; the column by which a tool filters on time, where there is one.
VIEWS: Final = {
    "current_cards": "tick_time",
    "current_holders": "tick_time",
    "hosts": "last_seen",
    "cards": "last_seen",
    "card_hours": "hour",
    "usage_hours": "hour",
    "costs": "hour",
    "allocation_hours": "hour",
    "execution_idle_hours": "hour",
    "card_ticks": "tick_time",
    "notices": "sent",
    "idle_streaks": "idle_until",
}
READ_BY_PEOPLE: Final = {"prices"}
"""Tables of database ``gua`` that have a table of columns."""
_COLUMN: Final = re.compile(r"^    (\w+) ((?:(?!COMMENT ).)+?) COMMENT '((?:[^']|'')*)'", re.MULTILINE | re.DOTALL)
_COMMENT: Final = re.compile(r"^COMMENT '((?:[^']|'')*)'$", re.MULTILINE)
_UNIT: Final = re.compile(r"\s*\[([^\][]+)\]$")
_SUFFIXES: Final = {"_ms": "ms", "_bytes": "By", "_seconds": "s", "_celsius": "Cel", "_mw": "mW", "_mj": "mJ"}

WITHOUT_CARD: Final = frozenset(("hosts", "notices"))
INTRODUCTION: Final = """<!-- Written by docs/generate_views.py from the COMMENTs in clickhouse/: edit those. -->

# Views and tables

For people who read the store with SQL or a BI tool. Read the views of database `gua_public`:

```sh
clickhouse-client --host HOST --user gua_bi --ask-password \\
  --query "SELECT state, sum(gpu_hours) FROM gua_public.card_hours WHERE hour >= now() - INTERVAL 7 DAY GROUP BY state"
```

These views are an interface: columns are added, never changed or removed. States are
`active`, `idle-held`, `truly-idle` and `unknown`, and `unobserved` for time or cards without ticks
([rules](rules.md)). An unknown value is NULL, never 0. Units stand in brackets behind the meaning. Times are UTC, and
ratios are 0 to 1.

- User `gua_bi` sees `gua_public` and nothing else ([users](fleet.md#the-server)). [Recipes](bi.md) connect DBeaver,
  Metabase, Superset, Power BI, Excel, Jupyter and Grafana.
- Filter on the time column of a view: `hour >= …`, `hour BETWEEN … AND …` or `toStartOfMonth(hour) = …`. The server
  then reads those months or days only.
- GPU-hours are `sum(gpu_hours)`. Prefer `card_hours` and `usage_hours` to ticks.
- Shares are of *observed* time. Time without ticks has no row: see `cards.first_seen`.

# Views

## Columns of the card

Every view but `hosts` and `notices` begins with these columns.

"""
TABLES: Final = """
# How it is stored

Database `gua` holds the tables, and the views that `gua_public` is built on. Its columns have other units: utilization
in 1/10,000, activity of SMs and memory in 1/200, time in milliseconds. The columns of the tick tables are listed with
the [metrics](metrics.md) that fill them.

## Hourly rollup

Reports read whole hours from the hourly rollup, and ticks at the edges of the window and for the newest hour. The
numbers are the same: `gua report --from-ticks` reads ticks only. An hour is one UTC hour of one host, and a tick
belongs to the hour of its end.

- `gua.hour_marks` counts the inserts per host and hour. A late, repeated or repaired tick makes the hour due again, and
  so does a changed rule in `gua.settings`. Until an hour is rolled up, reports read its ticks.
- A server checks `gua.due_hours` every minute. It rolls up hours that are over and got no insert for 10 seconds, the
  newest first, at most 1,000 at a time. Rows inserted into `gua.due_rollups` start a chain of materialized views, which
  fill the tables below; `gua.rollups` comes last. In the embedded store the agent and large imports do it, and reports
  of more than 250,000 ticks without a rollup.
- `gua.process_days` merges the hourly intervals of each process in a past UTC day: owners and holders of long windows
  are read from it. `gua.due_days` lists days whose rollups changed since. Until then, reports read their hours.
- `gua rollup` does it now; `gua rollup --all` repeats it for every hour that still has its ticks.
- An hour whose ticks have [expired](fleet.md#retention) keeps its rollup: new rules and late ticks do not
  change it. It has no peaks, declared kinds of work or waiting requests. A window that cuts it leaves it out as
  unobserved.

## Tables and internal views

Read the rollup's tables with `FINAL`.

| table or internal view | holds |
|---|---|
"""


class Column(NamedTuple):
    """A column: its meaning ends with the unit in brackets, where it has one."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """A table or view: its name, its comment and its columns."""

    name: str
    comment: str
    columns: tuple[Column, ...]


def main() -> None:
    """Write the page, or exit with 1 and a line saying that it is not current."""
    parser = argparse.ArgumentParser(description="Write docs/views.md from the COMMENTs of the shipped SQL.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if the page is not current")
    if not parser.parse_args().check:
        PAGE.write_text(render(), encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != render():
        sys.exit("docs/views.md is not current: run .venv/bin/python docs/generate_views.py")


def render() -> str:
    """Return the whole page."""
    statements = load(server_tokens())
    public = {each.name: each for each in _described(statements, "gua_public", "CREATE OR REPLACE VIEW")}
    views = [*_described(statements, "gua", "CREATE OR REPLACE VIEW")]
    tables = [*_described(statements, "gua", "CREATE TABLE")]
    shown = [*(each for each in tables if each.name in READ_BY_PEOPLE), *(each for each in views if each.columns)]
    named = [each for each in (*tables, *views) if each not in shown]
    return (
        INTRODUCTION
        + _table(card_columns(public))
        + "".join(_section(public[name], time, common=card_columns(public)) for name, time in VIEWS.items())
        + TABLES
        + "".join(f"| `gua.{each.name}` | {each.comment} |\n" for each in named)
        + "".join(_section(each, None, prefix="gua.") for each in shown)
    )


def card_columns(public: Mapping[str, Described]) -> tuple[Column, ...]:
    """Return the columns with which every public view of cards begins."""
    begins = [views.columns for name, views in public.items() if name not in WITHOUT_CARD]
    same = takewhile(lambda columns: len(set(columns)) == 1, zip(*begins, strict=False))
    return tuple(columns[0] for columns in same)


def _described(statements: list[Statement], database: str, kind: str) -> Iterator[Described]:
    for statement in statements:
        if (
            statement.creates
            and statement.creates[0] == database
            and re.search(rf"^{kind}\b", statement.sql, re.MULTILINE)
        ):
            yield Described(
                name=statement.creates[1],
                comment=_plain(next(iter(_COMMENT.findall(statement.sql)[-1:]), "Internal to gua_public")),
                columns=tuple(_columns(statement.sql)),
            )


def _columns(sql: str) -> Iterator[Column]:
    _, _, after = sql.partition("\n(\n")
    inside, _, _ = after.partition("\n)\n")
    for name, declared, comment in _COLUMN.findall(inside):
        column_type = " ".join(declared.split()).partition(" DEFAULT ")[0].replace("( ", "(").replace(" )", ")")
        merged = re.fullmatch(r"SimpleAggregateFunction\(\w+, (.*)\)", column_type)
        stated = _UNIT.search(comment)
        unit = stated[1] if stated else next((unit for suffix, unit in _SUFFIXES.items() if name.endswith(suffix)), "")
        # What the page says of all columns needs no unit: times are UTC, counts are named by their column.
        meaning = _plain(_UNIT.sub("", comment)) + (f" [{unit}]" if unit not in {"", "UTC", "0 to 1", name} else "")
        yield Column(name, merged[1] if merged else column_type, meaning)


def _plain(literal: str) -> str:
    return literal.replace("''", "'").replace("|", "\\|")


def _section(described: Described, time: str | None, *, prefix: str = "", common: Sequence[Column] = ()) -> str:
    columns = [column for column in described.columns if described.name in WITHOUT_CARD or column not in common]
    filtered = f" Time column: `{time}`." if time else ""
    return f"\n## {prefix}{described.name}\n\n{described.comment}.{filtered}\n\n{_table(columns)}"


def _table(columns: Sequence[Column]) -> str:
    rows = (f"| `{column.name}` | `{column.type}` | {column.meaning} |\n" for column in columns)
    return "| column | type | meaning |\n|---|---|---|\n" + "".join(rows)


if __name__ == "__main__":
    main()
