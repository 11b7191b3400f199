"""Remote write: ticks through a Collector with contrib's exporter for it into a real Prometheus that takes it.

The exporter is not in the project's build, so that a Collector with it is compiled here (2 to 4 minutes of CPU once).
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest

from gua.core.tick import Origin
from gua.core.words import Source
from gua.otlp.encode import encode
from gua.sim.host import simulate_from
from servers.collector import CONFIG
from servers.process import ServerProcess, free_ports, http_answers, poll
from servers.prometheus import Prometheus
from servers.tap import send
from servers.tools import collector_with_remote_write

INTERVAL_MS = 60_000
MINUTES = 30


def test_a_prometheus_that_is_written_to_has_the_sums_of_all_ticks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("prometheus") is None:
        pytest.skip("left out: prometheus is not on PATH (on Debian: apt-get install prometheus)")
    prometheus = Prometheus(tmp_path / "prometheus", "127.0.0.1:1", options=["--web.enable-remote-write-receiver"])
    http, grpc, health, metrics, page = free_ports(5)
    files = (CONFIG.with_name(name) for name in ("prometheus.yaml", "remote-write.yaml"))
    collector = ServerProcess(
        "collector",
        [str(collector_with_remote_write()), *(part for file in files for part in ("--config", str(file)))],
        {
            **os.environ,
            "COLLECTOR_HTTP": f"127.0.0.1:{http}",
            "COLLECTOR_GRPC": f"127.0.0.1:{grpc}",
            "COLLECTOR_HEALTH": f"127.0.0.1:{health}",
            "COLLECTOR_METRICS_PORT": str(metrics),
            "PROMETHEUS_SCRAPE": f"127.0.0.1:{page}",
            "PROMETHEUS_REMOTE_WRITE": f"{prometheus.url}/api/v1/write",
        },
        tmp_path,
    )
    now_ms = int(time.time() * 1000)
    origin = Origin(host="lab", host_id="lab", instance_id="one", source=Source.SIMULATOR, interval_ms=INTERVAL_MS)
    started = simulate_from(now_ms - MINUTES * INTERVAL_MS, seed=7, gpus=4, interval_ms=INTERVAL_MS, origin=origin)
    expected: Counter[str] = Counter()
    prometheus.run()
    try:
        collector.start(lambda: http_answers(f"http://127.0.0.1:{health}/"))
        for tick in started:
            if tick.ts_ms > now_ms:
                break
            expected.update({card.uuid: card.gpu_time_ms or 0 for card in tick.cards})
            send(f"http://127.0.0.1:{http}", encode(tick))

        def written() -> dict[str, float]:
            found = prometheus.query("sum by (host_name, hw_id) (gua_gpu_time_seconds_total)")
            return {dict(labels)["hw_id"]: seconds * 1000 for labels, seconds in found.items()}

        poll(lambda: sum(written().values()) >= sum(expected.values()) - 1, f"the sums; see {collector.log}")
        assert written() == pytest.approx(dict(expected))
        with capsys.disabled():
            hours = sum(expected.values()) / 3_600_000
            print(f"\nremote write: {len(expected)} cards, {hours:.2f} GPU-hours", end="")  # noqa: T201 - what was run
    finally:
        collector.kill()
        prometheus.kill()
