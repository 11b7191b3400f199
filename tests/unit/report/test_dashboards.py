"""The dashboards, alert rules and provisioning as Grafana will load them; their queries run in tests/pipeline."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from servers import grafana
from servers.grafana import DASHBOARDS, FOLDER, PLUGIN

SOURCE = {"type": PLUGIN, "uid": "${datasource}"}
ON_FILE = pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)


def values_of(node: object, key: str) -> Iterator[Any]:
    """Yield the value of a key wherever it stands."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name == key:
                yield value
            yield from values_of(value, key)
    elif isinstance(node, list):
        for value in node:
            yield from values_of(value, key)


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return (
        one["x"] < other["x"] + other["w"]
        and other["x"] < one["x"] + one["w"]
        and one["y"] < other["y"] + other["h"]
        and other["y"] < one["y"] + one["h"]
    )


def test_each_dashboard_has_its_own_uid_and_title() -> None:
    assert {file.stem for file in DASHBOARDS} == {"overview", "host", "user", "idle-held-now", "pipeline-health"}
    boards = [grafana.dashboard(file) for file in DASHBOARDS]
    assert len({board["uid"] for board in boards}) == len(boards)
    assert len({board["title"] for board in boards}) == len(boards)


def test_public_data_is_queried_from_public_views() -> None:
    queried = {
        name for query in grafana.queries() for name in re.findall(r"\b(?:FROM|JOIN)\s+(gua\w*\.\w+)", query.text)
    }
    assert queried - {name for name in queried if name.startswith("gua_public.")} == {
        # What the pipeline says of itself.
        "gua.agent_ticks",
        "gua.allocation_source_ticks",
        "gua.refused_points",
        # Those of a window and of now: as views without parameters they would read every tick.
        "gua_report.idle_streaks",
        "gua_report.current_allocations",
        "gua_report.slow_cards",
    }


@ON_FILE
def test_panels_have_ids_and_places_of_their_own(file: Path) -> None:
    board = grafana.dashboard(file)
    panels = [*grafana.panels_of(board)]
    assert board["schemaVersion"] >= 39
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({panel["title"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    assert all(place["x"] + place["w"] <= 24 and place["w"] > 0 and place["h"] > 0 for place in places)
    assert not [pair for pair in itertools.combinations(places, 2) if overlap(*pair)]


@ON_FILE
def test_the_data_source_is_the_one_that_the_reader_chose(file: Path) -> None:
    board = grafana.dashboard(file)
    assert (
        board["templating"]["list"][0] | {"name": "datasource", "type": "datasource", "query": PLUGIN}
        == (board["templating"]["list"][0])
    )
    sources = [*values_of(board["panels"], "datasource"), *values_of(board["templating"], "datasource")]
    assert sources
    assert all(source == SOURCE for source in sources)


@ON_FILE
def test_every_panel_says_what_it_counts_and_in_which_unit(file: Path) -> None:
    for panel in grafana.panels_of(grafana.dashboard(file)):
        assert len(panel["description"]) > 30, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]


@ON_FILE
def test_links_lead_to_dashboards_that_are_there_and_variables_that_they_have(file: Path) -> None:
    boards = {board["uid"]: board for board in map(grafana.dashboard, DASHBOARDS)}
    for url in values_of(grafana.dashboard(file), "url"):
        uid, variable = re.fullmatch(r"/d/([\w-]+)\?var-(\w+)=.*", url).groups()  # type: ignore[union-attr] # no match fails the test as well
        assert variable in {each["name"] for each in boards[uid]["templating"]["list"]}


@pytest.mark.parametrize("query", grafana.queries(), ids=lambda query: query.name)
def test_a_query_names_its_database_and_binds_names_as_sql_strings(query: grafana.Query) -> None:
    for table in re.findall(r"\b(?:FROM|(?<!ARRAY )JOIN)\s+([a-z_.]+)", query.text):
        assert table.startswith(("gua.", "gua_report.", "gua_public.")) or table in {"observed", "expected"}, table
    for variable in re.findall(r"\$\{(?!__)([^}]*)\}", query.text):
        assert variable.endswith(":sqlstring"), variable


def test_graphs_query_series_and_other_panels_tables() -> None:
    for query in grafana.queries():
        if query.panel:
            (target,) = query.panel["targets"]
            is_graph = query.panel["type"] == "timeseries"
            assert (target["queryType"], target["format"]) == (("timeseries", 0) if is_graph else ("table", 1)), (
                query.name
            )


def test_alert_rules_query_the_provisioned_data_source_and_have_a_threshold() -> None:
    (source,) = yaml.safe_load((FOLDER / "provisioning/datasources/clickhouse.yaml").read_text())["datasources"]
    assert source["type"] == PLUGIN
    assert source["jsonData"]["username"] == "gua_reader"
    assert re.fullmatch(r"\$\{\w+\}", source["secureJsonData"]["password"])
    rules = [*grafana.rules()]
    assert {rule["uid"] for rule in rules} == {
        "gua-held-and-idle",
        "gua-allocated-and-empty",
        "gua-agent-silent",
        "gua-delivery-lag",
    }
    for rule in rules:
        by_id = {data["refId"]: data for data in rule["data"]}
        assert by_id["A"]["datasourceUid"] == source["uid"]
        condition = by_id[rule["condition"]]["model"]
        assert (condition["type"], condition["expression"]) == ("threshold", "A")
        for label in re.findall(r"\$labels\.(\w+)", str(rule["annotations"])):
            assert re.search(rf"\bAS {label}\b|^\s*{label},", by_id["A"]["model"]["rawSql"], re.MULTILINE), label


def test_grafana_finds_the_dashboards_where_compose_mounts_them() -> None:
    (provider,) = yaml.safe_load((FOLDER / "provisioning/dashboards/gua.yaml").read_text())["providers"]
    volumes = yaml.safe_load((FOLDER.parents[1] / "docker-compose.yml").read_text())["services"]["grafana"]["volumes"]
    assert f"./deploy/grafana/dashboards:{provider['options']['path']}:ro" in volumes
