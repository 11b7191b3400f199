"""Rules and queries of deploy/prometheus, and promtool (of Debian's package prometheus), which checks and runs them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from servers.tools import ROOT, MissingToolError

FOLDER = ROOT / "deploy" / "prometheus"
RULES = sorted((FOLDER / "rules").glob("*.yaml"))
QUERIES = sorted((FOLDER / "queries").glob("*.promql"))
CASES = sorted((ROOT / "tests" / "promql").glob("*.yaml"))
DASHBOARD = ROOT / "deploy" / "grafana" / "prometheus" / "idle-processes.json"
MARK = "query:"


def promtool(*arguments: str | Path) -> str:
    """Return what promtool printed; fails with it where promtool does. Raises MissingToolError."""
    program = shutil.which("promtool")
    if program is None:
        msg = "promtool is not on PATH (on Debian: apt-get install prometheus)"
        raise MissingToolError(msg)
    done = subprocess.run(
        [program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def query(file: Path) -> str:
    """Return the PromQL of a file without its comments."""
    return "\n".join(line for line in file.read_text("utf-8").splitlines() if not line.startswith("#")).strip()


def rules() -> list[dict[str, Any]]:
    """Return every rule of every file."""
    return [
        rule for file in RULES for group in yaml.safe_load(file.read_text("utf-8"))["groups"] for rule in group["rules"]
    ]


def case_with_queries(file: Path) -> dict[str, Any]:
    """Return promtool's case with the queries and the paths of the rules put in."""
    case: dict[str, Any] = yaml.safe_load(file.read_text("utf-8"))
    case["rule_files"] = [str(FOLDER / "rules" / name) for name in case["rule_files"]]
    for test in case["tests"]:
        for each in test.get("promql_expr_test", ()):
            each.setdefault("eval_time", "0m")
            if each["expr"].startswith(MARK):
                each["expr"] = query(FOLDER / "queries" / f"{each['expr'].removeprefix(MARK)}.promql")
    return case


def names(expression: str) -> set[str]:
    """Return the metrics of agents that an expression queries; labels are left out."""
    bare = re.sub(r"\{[^}]*\}|\b(?:by|on|without|ignoring)\s*\([^)]*\)", "", expression)
    return set(re.findall(r"\b(?:gua|gpu_idle|hw)_[a-z0-9_]+\b", bare))


def dashboard() -> dict[str, Any]:
    """Return the dashboard for a Prometheus data source."""
    loaded: dict[str, Any] = json.loads(DASHBOARD.read_text("utf-8"))
    return loaded


def panel_queries() -> Iterator[tuple[str, str]]:
    """Yield the title of every panel with each of its queries, for all agents."""
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$instance", ".*")
