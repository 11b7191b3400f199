"""What Superset 6.1 requests for the charts of deploy/superset; tests/wide/test_superset.py has a real one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from servers.tools import ROOT

CHARTS = ROOT / "deploy" / "superset" / "gua" / "charts"
DATASETS = ROOT / "deploy" / "superset" / "gua" / "datasets" / "gua"
DAY = 86_400


@dataclass(frozen=True, kw_only=True)
class Question:
    """A chart's name and its SQL, in one line."""

    name: str
    sql: str


def questions(*, days: int) -> Iterator[Question]:
    """Yield the charts of the bundle, over so many days up to the last midnight, as "Last 30 days" is read."""
    datasets = {each["uuid"]: each for each in map(_loaded, DATASETS.glob("*.yaml"))}
    until = int(time.time()) // DAY * DAY
    for file in sorted(CHARTS.glob("*.yaml")):
        chart = _loaded(file)
        (query,) = json.loads(chart["query_context"])["queries"]
        span = tuple(time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at)) for at in (until - days * DAY, until))
        yield Question(name=chart["slice_name"], sql=_sql(datasets[chart["dataset_uuid"]], query, span))


def _loaded(file: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(file.read_text("utf-8")))


def _sql(dataset: Mapping[str, Any], query: Mapping[str, Any], span: tuple[str, ...]) -> str:
    measures = {each["metric_name"]: each["expression"] for each in dataset["metrics"]}
    chosen = [_column(each) for each in query["columns"]]
    shown = [f"{each} AS `{name}`" for name, each in chosen]
    shown += [f"{measures[name]} AS `{name}`" for name in query["metrics"] or ()]
    parts = [f"SELECT {', '.join(shown)} FROM `{dataset['schema']}`.`{dataset['table_name']}`"]
    if conditions := [_condition(each, span) for each in query.get("filters", ())]:
        parts.append(f"WHERE {' AND '.join(conditions)}")
    if query["metrics"]:
        parts.append(f"GROUP BY {', '.join(f'`{name}`' for name, _ in chosen)}")
    for name, ascending in query.get("orderby", ()):
        parts.append(f"ORDER BY `{name}`{' ASC' if ascending else ' DESC'}")
    return f"{' '.join(parts)} LIMIT {query['row_limit']}"


def _column(column: str | Mapping[str, Any]) -> tuple[str, str]:
    if isinstance(column, str):
        return column, f"`{column}`"
    return column["label"], f"toStartOfDay(toDateTime(`{column['sqlExpression']}`))"


def _condition(one: Mapping[str, Any], span: tuple[str, ...]) -> str:
    if one["op"] == "TEMPORAL_RANGE":
        since, until = span
        return f"`{one['col']}` >= toDateTime('{since}') AND `{one['col']}` < toDateTime('{until}')"
    return f"`{one['col']}` = '{one['val']}'"
