"""The Collector of the project's manifest, run with the project's own config, on free ports of 127.0.0.1."""

from __future__ import annotations

import os
import re
import signal
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from servers.clickhouse import PASSWORDS, ClickHouseServer
from servers.process import ServerProcess, free_ports, http_answers, poll
from servers.tools import ROOT, collector_binary

CONFIG = ROOT / "otel-collector" / "config.yaml"


class Collector:
    """One Collector in front of one ClickHouse; its queue below ``folder`` survives ``kill`` and ``start``."""

    def __init__(
        self,
        folder: Path,
        server: ClickHouseServer,
        settings: Mapping[str, str] | None = None,
        *,
        config: Path = CONFIG,
        over: Sequence[Path] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        http, grpc, self._health, self._metrics = free_ports(4)
        self.endpoint = f"http://127.0.0.1:{http}"
        self.grpc_endpoint = f"http://127.0.0.1:{grpc}"
        self._process = ServerProcess(
            "collector",
            [str(collector_binary()), *(part for file in (config, *over) for part in ("--config", str(file)))],
            {
                **os.environ,
                "CLICKHOUSE_ENDPOINT": server.endpoint,
                "CLICKHOUSE_PASSWORD": PASSWORDS["gua_writer"],
                "COLLECTOR_HTTP": f"127.0.0.1:{http}",
                "COLLECTOR_GRPC": f"127.0.0.1:{grpc}",
                "COLLECTOR_HEALTH": f"127.0.0.1:{self._health}",
                "COLLECTOR_METRICS_PORT": str(self._metrics),
                "COLLECTOR_QUEUE": str(folder / "queue"),
                "COLLECTOR_FLUSH": "200ms",
                **(settings or {}),
            },
            folder,
        )

    @property
    def log(self) -> Path:
        """Where its log is."""
        return self._process.log

    def start(self) -> None:
        self._process.start(lambda: http_answers(f"http://127.0.0.1:{self._health}/"))

    def stop(self) -> None:
        self._process.stop()

    def kill(self) -> None:
        self._process.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def own_metric(self, name: str) -> float:
        """Return one of the Collector's own metrics, summed over its labels; 0 before its first point."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics}/metrics", timeout=60) as answer:
            text = str(answer.read().decode())
        return sum(float(value) for value in re.findall(rf"(?m)^{name}(?:\{{[^\n]*\}})? (\S+)$", text))

    def accepted_points(self) -> float:
        """Return the points that senders know are safe, since this process started."""
        return self.own_metric("otelcol_receiver_accepted_metric_points")

    def sent_points(self) -> float:
        """Return the points that ClickHouse has taken, since this process started."""
        return self.own_metric("otelcol_exporter_sent_metric_points")

    def wait_until_delivered(self) -> None:
        """Wait until ClickHouse has all that was accepted."""
        poll(lambda: 0 < self.accepted_points() <= self.sent_points(), f"the Collector to deliver; see {self.log}")
