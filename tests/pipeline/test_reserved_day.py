"""The day of six people through the real Collector and server: each ms is where the script has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes import reserved_day as day
from gua.otlp.encode import encode
from servers.clickhouse import ClickHouseServer
from servers.collector import Collector
from servers.gua import Gua
from servers.tap import send


@pytest.mark.usefixtures("applied")
def test_a_reserved_day_arrives_to_the_millisecond(
    gua: Gua, clickhouse: ClickHouseServer, collector: Collector, tmp_path: Path
) -> None:
    for tick in day.ticks(tmp_path / "reservations"):
        send(collector.endpoint, encode(tick))
    collector.wait_until_delivered()

    window = ("--since", "2026-03-25T00:00Z", "--until", "2026-03-26T00:00Z", "--section", "all")
    report = gua.report(clickhouse.dsn("gua_reader"), *window)

    every, owners = day.summed()
    hours = pytest.approx
    uses = report["allocation"]["uses"]
    assert {use: values["gpu_hours"] for use, values in uses.items()} == {
        use: hours(every[use] / 3_600_000, abs=1e-3) for use in uses
    }
    for one in report["allocation"]["owners"]:
        assert (one["runs"], one["manuals"]) == day.COUNTS[one["owner"]]
        assert {use: values["gpu_hours"] for use, values in one["uses"].items()} == {
            use: hours(owners[one["owner"], use] / 3_600_000, abs=1e-3) for use in one["uses"]
        }
    (waited,) = report["contention"]
    assert (waited["most_waiting"], waited["wait_hours"], waited["waited_hours"]) == (2, 2.75, 2.5)
    assert waited["waited_empty_gpu_hours"] > 0
