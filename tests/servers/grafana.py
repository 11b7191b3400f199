"""The dashboards and alert rules of deploy/grafana: every query in them, and what Grafana makes of it.

Macros expand as pkg/macros/macros.go of grafana/clickhouse-datasource 4.x has it, variables as Grafana's
``sqlstring`` format: https://grafana.com/docs/grafana/latest/visualizations/dashboards/variables/variable-syntax/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from servers.tools import ROOT

FOLDER = ROOT / "deploy" / "grafana"
DASHBOARDS = sorted((FOLDER / "dashboards").glob("*.json"))
RULES = FOLDER / "provisioning" / "alerting" / "rules.yaml"
PLUGIN = "grafana-clickhouse-datasource"


@dataclass(frozen=True, kw_only=True)
class Query:
    """One query as it stands in a file. ``name`` is file and panel, variable or rule; ``text`` the SQL."""

    name: str
    text: str
    panel: Mapping[str, Any] = field(default_factory=dict)


def dashboard(file: Path) -> dict[str, Any]:
    loaded = json.loads(file.read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def panels_of(board: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every panel, those in rows, too."""
    for panel in board["panels"]:
        yield panel
        yield from panel.get("panels", ())


def rules() -> Iterator[dict[str, Any]]:
    for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"]:
        yield from group["rules"]


def queries() -> list[Query]:
    """Return the queries of all panels, variables and rules."""
    found = []
    for file in DASHBOARDS:
        board = dashboard(file)
        found += [
            Query(name=f"{file.stem}: {panel['title']}", text=target["rawSql"], panel=panel)
            for panel in panels_of(board)
            for target in panel.get("targets", ())
        ]
        found += [
            Query(name=f"{file.stem}: ${variable['name']}", text=variable["query"])
            for variable in board["templating"]["list"]
            if variable["type"] == "query"
        ]
    return found + [
        Query(name=f"alert: {rule['title']}", text=data["model"]["rawSql"])
        for rule in rules()
        for data in rule["data"]
        if data["datasourceUid"] != "__expr__"
    ]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What somebody looks at: the time range in seconds of Unix time, and the values of the variables.

    A variable that is not named is All. ``points`` is about how many points a graph has room for.
    """

    since: int
    until: int
    variables: Mapping[str, Sequence[str]] = field(default_factory=dict)
    points: int = 200

    def expand(self, query: Query) -> str:
        """Return the SQL that reaches the server."""
        least = _seconds(str(query.panel.get("interval", "1s")))
        step = max(least, (self.until - self.since) // self.points)
        text = self._conditional(query.text)
        text = re.sub(r"\$\{(\w+):sqlstring\}", lambda found: self._sqlstring(found[1]), text)
        text = text.replace("${__from}", str(self.since * 1000)).replace("${__to}", str(self.until * 1000))
        text = self._macros(text, step)
        assert "$" not in text, f"{query.name} holds something that Grafana does not expand:\n{text}"
        return text

    def _conditional(self, text: str) -> str:
        """Expand the plugin's $__conditionalAll(condition, $variable): 1=1 where the variable is All."""
        macro = "$__conditionalAll("
        while (start := text.rfind(macro)) >= 0:
            end = _closing(text, start + len(macro) - 1)
            condition, _, variable = text[start + len(macro) : end].rpartition(",")
            chosen = self.variables.get(variable.strip().removeprefix("$"))
            text = text[:start] + (condition if chosen else "1=1") + text[end + 1 :]
        return text

    def _sqlstring(self, variable: str) -> str:
        return ",".join("'" + value.replace("'", "''") + "'" for value in self.variables[variable])

    def _macros(self, text: str, step: int) -> str:
        since, until = f"toDateTime({self.since})", f"toDateTime({self.until})"
        text = re.sub(r"\$__timeFilter\((\w+)\)", rf"\1 >= {since} AND \1 <= {until}", text)
        text = re.sub(r"\$__timeInterval\((\w+)\)", rf"toStartOfInterval(toDateTime(\1), INTERVAL {step} second)", text)
        for macro, value in (("fromTime", since), ("toTime", until), ("interval_s", str(step))):
            text = re.sub(rf"\$__{macro}\b", value, text)
        return text


def _closing(text: str, opening: int) -> int:
    depth = 0
    for position in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position
    msg = f"a parenthesis is not closed: {text[opening:]}"
    raise ValueError(msg)


def _seconds(interval: str) -> int:
    return int(interval[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[interval[-1]]
