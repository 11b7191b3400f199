"""Write docs/views.md from the COMMENTs of the shipped SQL, or with --check say whether it is current.

Run: .venv/bin/python docs/generate_views.py [--check]
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gua.store.statements import Statement, load
from gua.store.tokens import server_tokens

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
    "idle_streaks": "idle_until",
}
_HIDDEN: Final = {"otlp_requests"}
"""Where bytes only pass through, and what has the fields of another standard."""
_COLUMN: Final = re.compile(r"^    (\w+) ((?:(?!COMMENT ).)+?) COMMENT '((?:[^']|'')*)'", re.MULTILINE | re.DOTALL)
_COMMENT: Final = re.compile(r"^COMMENT '((?:[^']|'')*)'$", re.MULTILINE)
_UNIT: Final = re.compile(r"\s*\[([^\][]+)\]$")
_SUFFIXES: Final = {"_ms": "ms", "_bytes": "By", "_seconds": "s", "_celsius": "Cel", "_mw": "mW", "_mj": "mJ"}

INTRODUCTION: Final = """<!-- Written by docs/generate_views.py from the COMMENTs in clickhouse/: edit those. -->

# Views and tables

What database `gua_public` holds for people and BI tools. Names, columns and units of its views are an interface: they
grow, and do not change. Each row says all of itself: host, index, device name, model and labels of its card. States are
written `active`, `idle-held`, `truly-idle` and `unknown`, and `unobserved` for time or cards without ticks
([rules](rules.md)). An unknown value is NULL, never 0.

## Connect a BI tool

Let it read as `gua_bi` ([users](fleet.md#the-server)), who sees database `gua_public` and nothing else. Times are UTC,
time is in hours, shares and utilization are ratios from 0 to 1, memory is in bytes.

[Recipes](bi.md) for DBeaver, Metabase, Superset, Power BI, Excel, Jupyter and Grafana have the address and charts for
each. The tests run them, and read every view through the JDBC driver and SQLAlchemy.

- Filter on the time column named with each view: `hour >= …`, `hour BETWEEN … AND …` and `toStartOfMonth(hour) = …`
  make the server read those months or days and no others.
- GPU-hours are `sum(gpu_hours)`; over days read `card_hours` and `usage_hours`, not the ticks.
- A share of time is of *observed* time. Time without ticks has no row: look at `cards.first_seen` before you say that
  nothing happened.
- `team` is the label `team` of a host, where it has one (`OTEL_RESOURCE_ATTRIBUTES=team=vision`). Of the others ask
  `labels['rack']`.
"""
TABLES: Final = """
# How it is stored

Tables and views of database `gua`. Read the tables that merge with `FINAL`, or see rows in parts. Utilization is in
1/10,000, times of ticks are in milliseconds.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """A table or view: its name, what it says of itself, and (column, type, unit, meaning)."""

    name: str
    comment: str
    columns: tuple[tuple[str, str, str, str], ...]


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
    views = {each.name: each for each in _described(statements, "gua_public", "CREATE OR REPLACE VIEW")}
    inner = [*_described(statements, "gua", "CREATE OR REPLACE VIEW")]
    tables = [each for each in _described(statements, "gua", "CREATE TABLE") if each.name not in _HIDDEN]
    return (
        INTRODUCTION
        + "\n# Views\n"
        + "".join(_section(views[name], time) for name, time in VIEWS.items())
        + TABLES
        + "".join(_section(each, None, prefix="gua.") for each in (*tables, *inner))
    )


def _described(statements: list[Statement], database: str, kind: str) -> Iterator[Described]:
    for statement in statements:
        if (
            statement.creates
            and statement.creates[0] == database
            and re.search(rf"^{kind}\b", statement.sql, re.MULTILINE)
        ):
            yield Described(
                name=statement.creates[1],
                comment=_plain(_COMMENT.findall(statement.sql)[-1]),
                columns=tuple(_columns(statement.sql)),
            )


def _columns(sql: str) -> Iterator[tuple[str, str, str, str]]:
    _, _, after = sql.partition("\n(\n")
    inside, _, _ = after.partition("\n)\n")
    for name, declared, comment in _COLUMN.findall(inside):
        column_type = " ".join(declared.split()).partition(" DEFAULT ")[0].replace("( ", "(").replace(" )", ")")
        merged = re.fullmatch(r"SimpleAggregateFunction\(\w+, (.*)\)", column_type)
        unit = _UNIT.search(comment)
        by_name = next((unit for suffix, unit in _SUFFIXES.items() if name.endswith(suffix)), "")
        meaning = _plain(_UNIT.sub("", comment))
        yield name, merged[1] if merged else column_type, unit[1] if unit else by_name, meaning


def _plain(literal: str) -> str:
    return literal.replace("''", "'").replace("|", "\\|")


def _section(described: Described, time: str | None, *, prefix: str = "") -> str:
    lines = [
        f"\n## {prefix}{described.name}\n",
        f"{described.comment}.{f' Time column: `{time}`.' if time else ''}\n",
        "| column | type | unit | meaning |",
        "|---|---|---|---|",
        *(f"| `{name}` | `{kind}` | {unit} | {meaning} |" for name, kind, unit, meaning in described.columns),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
