"""The names in rules and queries for Prometheus are those that agents serve."""

from __future__ import annotations

import re

from gua.core.tick import Origin, Tick
from gua.core.words import Source
from gua.exporter import gpu_idle_exporter
from gua.exporter.catalogue import Catalogue
from servers.promtool import QUERIES, names, panel_queries, query, rules


def test_every_metric_of_a_rule_or_query_is_one_that_agents_serve() -> None:
    served = served_names()
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    expressions = {str(rule["expr"]) for rule in rules()} | {query(file) for file in QUERIES}
    expressions |= {text for _, text in panel_queries()}
    for expression in expressions:
        without_recorded = re.sub("|".join(map(re.escape, sorted(recorded))), "", expression)
        found = names(without_recorded)
        assert found or without_recorded != expression or "up{" in expression, expression
        assert found - served == set(), expression


def served_names() -> set[str]:
    """Return the names of all series that an agent may serve, from where they are declared."""
    tick = Tick(ts_ms=1_000, origin=Origin(host="a", source=Source.AGENT, interval_ms=1_000), cards=())
    families = [*Catalogue().families(tick), *gpu_idle_exporter.families(tick, {}, {})]
    return {family.name + "_total" * (family.type == "counter") for family in families} | {
        "gua_agent_stale",
        "gua_agent_tick_timestamp_seconds",
    }
