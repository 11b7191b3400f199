"""A real Prometheus (Debian's package prometheus) as a process of the test run."""

from __future__ import annotations

import json
import os
import shutil
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from servers.process import ServerProcess, free_ports, http_answers
from servers.tools import MissingToolError


def prometheus_program() -> str:
    """Return the path of Prometheus. Raises MissingToolError."""
    program = shutil.which("prometheus")
    if program is None:
        msg = "prometheus is not on PATH (on Debian: apt-get install prometheus)"
        raise MissingToolError(msg)
    return program


class Prometheus(ServerProcess):
    """Scrapes the targets every second and evaluates the rules of these files as often. Raises MissingToolError."""

    def __init__(
        self, folder: Path, *targets: str, rule_files: Sequence[Path] = (), options: Sequence[str] = ()
    ) -> None:
        program = prometheus_program()
        folder.mkdir(parents=True, exist_ok=True)
        [port] = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        scraped = {"job_name": "gua", "static_configs": [{"targets": list(targets)}], "honor_labels": True}
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(file) for file in rule_files],
            "scrape_configs": [scraped],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
        super().__init__(
            "prometheus",
            [
                program,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                *options,
            ],
            dict(os.environ),
            folder,
        )

    def run(self) -> None:
        """Start, and return once it answers."""
        self.start(lambda: http_answers(f"{self.url}/-/ready"))

    def query(self, expression: str) -> dict[tuple[tuple[str, str], ...], float]:
        """Return the labels and the value of each series of an instant query."""
        found = self._get(f"/api/v1/query?query={urllib.parse.quote(expression)}")
        return {tuple(sorted(one["metric"].items())): float(one["value"][1]) for one in found["result"]}

    def alerts(self, name: str) -> list[dict[str, Any]]:
        """Return the alerts of a rule that are pending or fire."""
        found: list[dict[str, Any]] = self._get("/api/v1/alerts")["alerts"]
        return [one for one in found if one["labels"]["alertname"] == name]

    def target(self) -> dict[str, Any]:
        """Return the only target as it was scraped last."""
        [one] = self._get("/api/v1/targets")["activeTargets"]
        return dict(one)

    def _get(self, path: str) -> Any:  # noqa: ANN401 - whatever the API answers
        with urllib.request.urlopen(f"{self.url}{path}", timeout=60) as answer:  # noqa: S310 - our own server
            return json.load(answer)["data"]
