"""Recorded and simulated hosts through OTLP, Collector and server: the report is that of the embedded store."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servers.clickhouse import ClickHouseServer
from servers.collector import Collector
from servers.gua import SUMS, Gua, differences
from servers.tap import send, split, tapped

DEMO = ("demo", "--seed", "7", "--ticks", "60", "--gpus", "4")
# Long enough for every state, holders that share a card, a restart and an hour without data.
TWO_DAYS = ("demo", "--seed", "7", "--days", "2", "--gpus", "8", "--interval", "10m")

EVERY_SECTION = ("--section", "all")

Reported = Callable[..., dict[str, Any]]


@pytest.fixture
def served(applied: ClickHouseServer) -> str:
    return applied.dsn("gua_reader")


def test_recordings_give_the_same_report(
    gua: Gua, recordings: list[Path], reported: Reported, served: str, collector: Collector
) -> None:
    gua.must("import", "nvidia-smi", *recordings, "--endpoint", collector.endpoint)
    collector.wait_until_delivered()

    report = gua.report(served)

    assert not [*differences(report, reported(("import", "nvidia-smi", *recordings)))]
    states = report["headline"]["states"]
    assert {state: share["card_ticks"] for state, share in states.items()} == {
        "active": 0,
        "idle-held": 880,
        "truly-idle": 120,
        "unknown": 0,
    }
    assert sorted(card["states"]["idle-held"]["card_ticks"] for card in report["cards"]) == [240, 320, 320]
    coverage = report["coverage"]
    assert round(coverage["observed_gpu_hours"], 3) == 8.333
    assert round(coverage["unobserved_gpu_hours"], 3) == 0.539
    assert coverage["gaps"] == 22


def test_a_simulated_host_gives_the_same_report(
    gua: Gua, reported: Reported, served: str, collector: Collector
) -> None:
    gua.must(*TWO_DAYS, "--endpoint", collector.endpoint)
    collector.wait_until_delivered()

    report = gua.report(served, *EVERY_SECTION)

    # The demo records notices of its own with its report, which a server that gets its ticks does not have.
    differing = [*differences(report, {**reported(TWO_DAYS, options=EVERY_SECTION), "notices": report["notices"]})]
    assert not differing
    assert all(state["card_ticks"] > 0 for state in report["headline"]["states"].values()), report["headline"]
    # What the active hours were worth is in what was compared.
    assert report["usefulness"]["loaded"]["idle_gpu_hours"] > 0
    assert report["headline"]["idle_seconds"]["most_idle"]["idle_gpu_hours"] > 0
    assert report["right_size"]["half"]["gpu_hours"] > 0
    assert sum(card["known_hours"] for card in report["slow_cards"]["cards"]) > 0


def test_over_grpc_it_is_the_same_report(reported: Reported, served: str, collector: Collector, tmp_path: Path) -> None:
    gua = Gua(tmp_path / "home", OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
    gua.must(*DEMO, "--endpoint", collector.grpc_endpoint)
    collector.wait_until_delivered()

    assert not [*differences(gua.report(served, *SUMS), reported(DEMO, options=SUMS))]


def test_ticks_sent_three_times_out_of_order_and_in_pieces_give_the_same_report(
    gua: Gua, reported: Reported, served: str, collector: Collector
) -> None:
    with tapped() as (endpoint, requests):
        gua.must(*DEMO, "--endpoint", endpoint)
    pieces = [piece for request in requests[::3] for piece in split(request)]
    arrivals = [*requests, *pieces, *requests, *requests[1::3], *requests[2::3]]
    random.Random(7).shuffle(arrivals)  # noqa: S311 - a fixed order, not a secret
    for body in arrivals:
        send(collector.endpoint, body)
    collector.wait_until_delivered()

    assert not [*differences(gua.report(served, *SUMS), reported(DEMO, options=SUMS))]


def test_nothing_is_lost_while_the_server_is_down(
    gua: Gua,
    recordings: list[Path],
    reported: Reported,
    served: str,
    clickhouse: ClickHouseServer,
    collector: Collector,
) -> None:
    first, *others = recordings
    gua.must("import", "nvidia-smi", first, "--endpoint", collector.endpoint)
    clickhouse.kill()
    gua.must("import", "nvidia-smi", *others, "--endpoint", collector.endpoint)
    clickhouse.start()
    collector.wait_until_delivered()

    expected = reported(("import", "nvidia-smi", *recordings), options=SUMS)
    assert not [*differences(gua.report(served, *SUMS), expected)]
