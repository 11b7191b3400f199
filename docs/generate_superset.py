"""Write deploy/superset/gua: the bundle that Superset imports, its datasets from the COMMENTs of the shipped SQL.

Run: .venv/bin/python docs/generate_superset.py [--check]
"""

from __future__ import annotations

import argparse
import json
import runpy
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from gua.store.statements import load, server_tokens

DOCS: Final = Path(__file__).parent
BUNDLE: Final = DOCS.parent / "deploy" / "superset" / "gua"
VERSION: Final = "1.0.0"
# Of nothing but names, so that a second import finds what the first one made.
_SPACE: Final = uuid.UUID("7d1c2f3a-6f0e-5b0a-9a54-1c7a2f0c9b11")
_AMOUNTS: Final = ("observed_hours", "gpu_hours", "process_hours", "cost", "idle_hours")
LAST_DAYS: Final = "Last 30 days"


def main() -> None:
    """Write the bundle, or exit with 1 and a line saying that it is not current."""
    parser = argparse.ArgumentParser(description="Write deploy/superset/gua from the COMMENTs of the shipped SQL.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if the bundle is not current")
    checked = parser.parse_args().check
    wanted = {BUNDLE / name: text for name, text in render().items()}
    there = {file: file.read_text("utf-8") for file in BUNDLE.rglob("*.yaml")}
    if checked and wanted != there:
        sys.exit("deploy/superset/gua is not current: run .venv/bin/python docs/generate_superset.py")
    if checked:
        return
    for file in there.keys() - wanted.keys():
        file.unlink()
    for file, text in wanted.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def render() -> dict[str, str]:
    """Return the text of each file of the bundle by its path in it."""
    files: dict[str, dict[str, Any]] = {
        "metadata.yaml": {"version": VERSION, "type": "Dashboard", "timestamp": "2026-01-01T00:00:00+00:00"},
        "databases/gua.yaml": {
            "database_name": "gua",
            "sqlalchemy_uri": "clickhousedb://gua_bi:XXXXXXXXXX@db.example:8123/gua_public",
            "expose_in_sqllab": True,
            "allow_dml": False,
            "allow_ctas": False,
            "allow_cvas": False,
            "allow_run_async": False,
            "extra": {"allows_virtual_table_explore": True},
            "uuid": _uuid("database"),
            "version": VERSION,
        },
    }
    page = runpy.run_path(str(DOCS / "generate_views.py"))
    described = {each.name: each for each in page["_described"](load(server_tokens()), "gua_public", page["VIEW_KIND"])}
    for view, time in page["VIEWS"].items():
        files[f"datasets/gua/{view}.yaml"] = _dataset(view, described[view], time)
    charts = _charts()
    for name, chart in charts.items():
        files[f"charts/{name}.yaml"] = chart
    files["dashboards/gpu_hours.yaml"] = _dashboard(charts)
    return {name: yaml.safe_dump(each, sort_keys=False, allow_unicode=True, width=120) for name, each in files.items()}


def _uuid(name: str) -> str:
    return str(uuid.uuid5(_SPACE, name))


def _dataset(view: str, described: Any, time: str) -> dict[str, Any]:  # noqa: ANN401 - of another script
    names = [column.name for column in described.columns]
    return {
        "table_name": view,
        "schema": "gua_public",
        "main_dttm_col": time,
        "description": described.comment,
        "sql": None,
        "metrics": [
            {"metric_name": "count", "verbose_name": "Rows", "expression": "COUNT(*)"},
            *(
                {"metric_name": f"sum_{name}", "verbose_name": f"Sum of {name}", "expression": f"SUM({name})"}
                for name in names
                if name in _AMOUNTS
            ),
        ],
        "columns": [
            {
                "column_name": name,
                "is_dttm": "DateTime" in kind,
                "type": kind,
                "groupby": True,
                "filterable": True,
                "description": meaning,
            }
            for name, kind, meaning in described.columns
        ],
        "uuid": _uuid(f"dataset {view}"),
        "version": VERSION,
        "database_uuid": _uuid("database"),
    }


def _charts() -> dict[str, dict[str, Any]]:
    held = {"col": "state", "op": "==", "val": "idle-held"}
    return {
        "gpu_hours_by_state": _by_day("card_hours", "GPU-hours by day and state", "state"),
        "allocated_gpu_hours_by_use": _by_day("allocation_hours", "Allocated GPU-hours by day and use", "use"),
        "idle_held_by_owner": _table(
            "usage_hours", "Idle-held GPU-hours by owner", ["team", "owner"], ["sum_gpu_hours"], held
        ),
        "cost_of_idle_held": _table(
            "costs", "Cost of idle-held time by owner", ["owner", "currency"], ["sum_cost", "sum_gpu_hours"], held
        ),
        "cards_now": _chart(
            "current_cards",
            "Cards now by state",
            "pie",
            {"groupby": ["state"], "metric": "count"},
            {"columns": ["state"], "metrics": ["count"], "row_limit": 100},
        ),
        "held_now": _chart(
            "current_holders",
            "Who holds cards now, longest idle first",
            "table",
            {"query_mode": "raw", "all_columns": HELD_NOW, "row_limit": 1000},
            {"columns": HELD_NOW, "metrics": None, "orderby": [["idle_hours", False]], "row_limit": 1000},
        ),
    }


HELD_NOW: Final = ["host", "gpu_index", "card", "team", "owner", "program", "card_state", "idle_hours", "memory_bytes"]


def _by_day(view: str, title: str, by: str) -> dict[str, Any]:
    range_of_time = {"col": "hour", "op": "TEMPORAL_RANGE", "val": LAST_DAYS}
    axis = {
        "columnType": "BASE_AXIS",
        "sqlExpression": "hour",
        "label": "hour",
        "expressionType": "SQL",
        "timeGrain": "P1D",
    }
    form = {
        "x_axis": "hour",
        "time_grain_sqla": "P1D",
        "metrics": ["sum_gpu_hours"],
        "groupby": [by],
        "stack": "Stack",
        "adhoc_filters": [_adhoc(range_of_time)],
        "row_limit": 10000,
    }
    query = {
        "columns": [axis, by],
        "metrics": ["sum_gpu_hours"],
        "filters": [range_of_time],
        "orderby": [["sum_gpu_hours", False]],
        "row_limit": 10000,
    }
    return _chart(view, title, "echarts_timeseries_bar", form, query)


def _table(view: str, title: str, by: list[str], metrics: list[str], condition: Mapping[str, str]) -> dict[str, Any]:
    filters = [{"col": "hour", "op": "TEMPORAL_RANGE", "val": LAST_DAYS}, dict(condition)]
    form = {
        "query_mode": "aggregate",
        "groupby": by,
        "metrics": metrics,
        "adhoc_filters": [_adhoc(each) for each in filters],
        "row_limit": 1000,
    }
    query = {
        "columns": by,
        "metrics": metrics,
        "filters": filters,
        "orderby": [[metrics[0], False]],
        "row_limit": 1000,
    }
    return _chart(view, title, "table", form, query)


def _adhoc(condition: Mapping[str, str]) -> dict[str, str]:
    return {
        "clause": "WHERE",
        "expressionType": "SIMPLE",
        "subject": condition["col"],
        "operator": condition["op"],
        "comparator": condition["val"],
    }


def _chart(view: str, title: str, kind: str, form: dict[str, Any], query: dict[str, Any]) -> dict[str, Any]:
    context = {
        "datasource": {"id": 0, "type": "table"},
        "force": False,
        "queries": [{"extras": {}, **query}],
        "result_format": "json",
        "result_type": "full",
    }
    return {
        "slice_name": title,
        "viz_type": kind,
        "params": {"viz_type": kind, **form},
        "query_context": json.dumps(context),
        "uuid": _uuid(f"chart {title}"),
        "version": VERSION,
        "dataset_uuid": _uuid(f"dataset {view}"),
    }


def _dashboard(charts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    position: dict[str, Any] = {
        "DASHBOARD_VERSION_KEY": "v2",
        "ROOT_ID": {"type": "ROOT", "id": "ROOT_ID", "children": ["GRID_ID"]},
        "GRID_ID": {"type": "GRID", "id": "GRID_ID", "children": [], "parents": ["ROOT_ID"]},
    }
    for number, (name, chart) in enumerate(charts.items()):
        row = f"ROW-{number // 2}"
        if row not in position:
            position["GRID_ID"]["children"].append(row)
            position[row] = {
                "type": "ROW",
                "id": row,
                "children": [],
                "meta": {"background": "BACKGROUND_TRANSPARENT"},
                "parents": ["ROOT_ID", "GRID_ID"],
            }
        position[row]["children"].append(f"CHART-{name}")
        position[f"CHART-{name}"] = {
            "type": "CHART",
            "id": f"CHART-{name}",
            "children": [],
            "meta": {
                "chartId": number + 1,
                "uuid": chart["uuid"],
                "sliceName": chart["slice_name"],
                "width": 6,
                "height": 50,
            },
            "parents": ["ROOT_ID", "GRID_ID", row],
        }
    return {
        "dashboard_title": "Where GPU-hours go",
        "slug": "gpu-hours",
        "position": position,
        "metadata": {"color_scheme": "supersetColors"},
        "published": True,
        "uuid": _uuid("dashboard"),
        "version": VERSION,
    }


if __name__ == "__main__":
    main()
