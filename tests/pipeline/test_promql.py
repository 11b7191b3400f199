"""Rules and queries for Prometheus: promtool reads them all, and runs the cases of tests/promql."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from servers.promtool import (
    CASES,
    FOLDER,
    QUERIES,
    RULES,
    case_with_queries,
    dashboard,
    panel_queries,
    promtool,
    query,
)
from servers.tools import MissingToolError

# What a Prometheus has of two agents.
DATA = Path(__file__).parents[1] / "promql" / "data" / "dashboard.yaml"


@pytest.fixture(autouse=True)
def _promtool() -> None:
    try:
        promtool("--version")
    except MissingToolError as missing:
        if os.environ.get("GUA_REQUIRE_ALL") or os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@pytest.mark.parametrize("file", RULES, ids=lambda file: file.stem)
def test_promtool_finds_no_fault_in_the_rules(file: Path) -> None:
    assert "SUCCESS" in promtool("check", "rules", "--lint=all", "--lint-fatal", file)


def test_promtool_reads_every_query(tmp_path: Path) -> None:
    records = [{"record": f"a:query_{number}", "expr": query(file)} for number, file in enumerate(QUERIES)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": records}]}))
    assert f"{len(QUERIES)} rules found" in promtool("check", "rules", file)


@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_rules_and_queries_say_what_the_cases_expect(file: Path, tmp_path: Path) -> None:
    case = tmp_path / file.name
    case.write_text(yaml.safe_dump(case_with_queries(file)))
    assert "SUCCESS" in promtool("test", "rules", case)


def test_promtool_reads_the_scrape_configuration() -> None:
    assert "SUCCESS" in promtool("check", "config", FOLDER / "scrape.yaml")


def test_every_panel_of_the_dashboard_shows_something(tmp_path: Path) -> None:
    evaluations = [
        {"expr": f"count({text}) > bool 0", "eval_time": "5m", "exp_samples": [{"labels": "{}", "value": 1}]}
        for _, text in panel_queries()
    ]
    case = tmp_path / "dashboard.yaml"
    test = {"interval": "1m", "input_series": yaml.safe_load(DATA.read_text()), "promql_expr_test": evaluations}
    case.write_text(yaml.safe_dump({"tests": [test]}))
    assert "SUCCESS" in promtool("test", "rules", case)


def test_tables_that_are_merged_have_no_column_in_which_their_rows_differ(tmp_path: Path) -> None:
    # Grafana merges rows that are the same in every column that all tables have, and a metric's name is such a column.
    (panel,) = [panel for panel in dashboard()["panels"] if "merge" in str(panel.get("transformations"))]
    evaluations = [
        {
            "expr": f"count by (__name__) ({target['expr'].replace('$instance', '.*')})",
            "eval_time": "5m",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for target in panel["targets"]
    ]
    assert len(evaluations) == 2
    case = tmp_path / "merged.yaml"
    test = {"interval": "1m", "input_series": yaml.safe_load(DATA.read_text()), "promql_expr_test": evaluations}
    case.write_text(yaml.safe_dump({"tests": [test]}))
    assert "SUCCESS" in promtool("test", "rules", case)
