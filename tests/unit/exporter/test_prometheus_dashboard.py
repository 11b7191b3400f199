"""The dashboard for Prometheus as Grafana will load it; promtool runs its queries in tests/pipeline."""

from __future__ import annotations

import itertools
import re

from servers import grafana
from servers.promtool import dashboard

SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def test_panels_have_ids_titles_and_places_of_their_own() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    for one, other in itertools.combinations([panel["gridPos"] for panel in panels], 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


def test_every_panel_has_a_description_and_queries_the_selected_source_and_instances() -> None:
    source, instance = dashboard()["templating"]["list"]
    assert (source["name"], source["query"]) == ("datasource", "prometheus")
    assert (instance["name"], instance["allValue"], instance["datasource"]) == ("instance", ".*", SOURCE)
    for panel in dashboard()["panels"]:
        assert len(panel["description"]) > 30, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"] == SOURCE
        for target in panel["targets"]:
            assert target["datasource"] == SOURCE
            selectors = re.findall(r"\b(?:gua|hw)_\w+\{([^}]*)\}", target["expr"])
            assert selectors, target["expr"]
            assert all('instance=~"$instance"' in labels for labels in selectors)
            assert (target["instant"], target["range"]) == (
                (False, True) if panel["type"] == "timeseries" else (True, False)
            )


def test_no_other_dashboard_has_its_place() -> None:
    others = {grafana.dashboard(file)["uid"] for file in grafana.DASHBOARDS}
    assert dashboard()["uid"] not in others
