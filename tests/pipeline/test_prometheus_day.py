"""A hand-worked day in a real Prometheus and VictoriaMetrics: each number of `gua audit` against a recomputation.

No number differs. What raw samples and steps, or the two servers, do not have in common is in fakes.scraped_sums.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fakes import scraped_day as day
from fakes import scraped_sums as sums
from servers.gua import Gua, differences
from servers.recorded_prometheus import RecordedPrometheus, VictoriaMetrics
from servers.tools import MissingToolError

Server = RecordedPrometheus | VictoriaMetrics
Report = dict[str, Any]

WHOLE_DAY = "2026-03-25T00:00Z", "2026-03-26T00:00Z", "UTC", 0
# Its bounds cut ticks, and its zone has half an hour in its offset.
EVENING = "2026-03-25T10:44:59Z", "2026-03-25T22:12:13Z", "Asia/Kolkata", 19_800_000
STEP_MS = 300_000
USES = ("used", "held", "used-by-others", "empty", "unallocated-use", "free", "unknown")
STATES = ("active", "idle-held", "truly-idle", "unknown")


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[type[Server]], Server]]:
    """Return what runs a server with the day, once for all tests."""
    running: dict[type[Server], Server] = {}

    def start(kind: type[Server]) -> Server:
        if kind not in running:
            try:
                one = kind(tmp_path_factory.mktemp("day") / "server", day.series())
            except MissingToolError as missing:
                if os.environ.get("GUA_REQUIRE_ALL") or os.environ.get("CI"):
                    pytest.fail(str(missing))
                pytest.skip(str(missing))
            running[kind] = one
            one.run()
        return running[kind]

    yield start
    for one in running.values():
        one.kill()


def audit(gua: Gua, server: Server, window: tuple[str, str, str, int], *options: str) -> Report:
    """Return the report of an audit, complete."""
    since, until, zone, _ = window
    times = ("--since", since, "--until", until, "--timezone", zone)
    report = json.loads(gua.must("audit", server.url, *times, "--json", "--section", "all", *options))
    assert isinstance(report, dict)
    return report


def told(report: Report) -> dict[str, float]:
    """Return each number of a report by the names that the recomputation has; none that is 0."""
    found: dict[str, float] = {}

    def states(where: str, of: Report) -> None:
        for state in STATES:
            found[f"{where}: {state} hours"] = of["states"][state]["gpu_hours"]
            found[f"{where}: {state} ticks"] = of["states"][state]["card_ticks"]

    states("all", report["headline"])
    for one in report["cards"]:
        states(f"card {one['gpu']}", one)
    for one in report["time_of_day"]:
        states(f"hour {one['hour']}", one)
    for where, of in [("all", report["coverage"]), *((f"card {one['gpu']}", one) for one in report["cards"])]:
        for kind in ("observed", "unobserved", "expected"):
            found[f"{where}: {kind} hours"] = of[f"{kind}_gpu_hours"]
    found |= {f"unknown by {reason}": hours for reason, hours in report["unknown"].items()}
    found |= _reported_allocations(report["allocation"]) | _reported_energy(report["energy"])
    return {name: value for name, value in found.items() if value}


def _reported_allocations(allocation: Report) -> dict[str, float]:
    found = {f"use {use}": allocation["uses"][use]["gpu_hours"] for use in USES}
    found["with source"] = allocation["with_source_gpu_hours"]
    found["without source"] = allocation["without_source_gpu_hours"]
    for one in allocation["owners"]:
        found[f"owner {one['owner']}: allocated"] = one["allocated_gpu_hours"]
        found |= {f"owner {one['owner']}: {use}": of["gpu_hours"] for use, of in one["uses"].items()}
    return found


def _reported_energy(energy: Report) -> dict[str, float]:
    kinds = ("measured joules", "measured seconds", "estimated joules", "estimated seconds", "unknown seconds")
    return {
        f"energy {one['gpu']}: {state} {kind}": of[kind.replace(" ", "_")]
        for one in energy["cards"]
        for state, of in one["states"].items()
        for kind in kinds
    }


def other(found: dict[str, float], expected: dict[str, float], *, within: float = 2e-6) -> list[str]:
    """Return a line for each number that differs: of hours by more than ``within``, of joules by that share."""
    lines = []
    for name in sorted({**found, **expected}):
        one, two = found.get(name, 0), expected.get(name, 0)
        allowed = 0.02 + within * abs(two) if "energy" in name else 0 if "ticks" in name else within
        if abs(one - two) > allowed:
            lines.append(f"{name}: {one}, not {two}")
    return lines


def bounds(report: Report) -> tuple[int, int]:
    """Return the window of a report as Unix ms."""
    return tuple(_ms(report["window"][name]) for name in ("since", "until"))  # type: ignore[return-value]


def _ms(text: str) -> int:
    return day.at(text[11:19]) + (day.DAY_MS if text[:10] == "2026-03-26" else 0)


both = pytest.mark.parametrize("kind", [RecordedPrometheus, VictoriaMetrics], ids=["prometheus", "victoria-metrics"])


def wrong(report: Report, cards: Sequence[sums.Shown], offset_ms: int = 0) -> list[str]:
    """Return the numbers of a report that are not those of the cards' ticks."""
    expected = sums.report(cards, *bounds(report), offset_ms)
    timeline = report["timeline"]
    cell_ms = round(timeline["cell_seconds"] * 1000)
    cells = {
        f"{one['gpu']} cell {number}: {state}": seconds
        for one in timeline["cards"]
        for number, cell in enumerate(one["cells"])
        for state, seconds in zip(timeline["states"], cell, strict=True)
    }
    assert len(expected) > 150
    return [
        *other(told(report), expected),
        # Holes of some ms between the scrapes of node-d are spread over each run of a state.
        *other(cells, sums.timeline(cards, *bounds(report), cell_ms), within=0.03),
    ]


@pytest.fixture(scope="module")
def audited(
    started: Callable[[type[Server]], Server], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[type[Server]], tuple[Gua, Report]]:
    """Return who has the day's raw samples of a server, and the report, made once for all tests."""

    @cache
    def audit_once(kind: type[Server]) -> tuple[Gua, Report]:
        gua = Gua(tmp_path_factory.mktemp("audited"))
        return gua, audit(gua, started(kind), WHOLE_DAY, "--resolution", "raw")

    return audit_once


@both
def test_raw_samples_of_the_day(kind: type[Server], audited: Callable[[type[Server]], tuple[Gua, Report]]) -> None:
    assert wrong(audited(kind)[1], sums.shown()) == []


def test_both_servers_have_the_same_report(audited: Callable[[type[Server]], tuple[Gua, Report]]) -> None:
    assert [*differences(audited(VictoriaMetrics)[1], audited(RecordedPrometheus)[1])] == []


def test_auditing_again_changes_nothing(
    started: Callable[[type[Server]], Server], audited: Callable[[type[Server]], tuple[Gua, Report]]
) -> None:
    gua, report = audited(RecordedPrometheus)
    server = started(RecordedPrometheus)
    # A window within it reads in other spans of time, and chooses the same source of each card.
    assert wrong(audit(gua, server, EVENING, "--resolution", "raw", "--again"), sums.shown(), EVENING[3]) == []
    for options in ((), ("--again",)):
        assert [*differences(audit(gua, server, WHOLE_DAY, "--resolution", "raw", *options), report)] == []


def test_raw_samples_of_a_window_alone(started: Callable[[type[Server]], Server], tmp_path: Path) -> None:
    report = audit(Gua(tmp_path), started(RecordedPrometheus), EVENING, "--resolution", "raw")
    assert wrong(report, sums.within(sums.shown(), *bounds(report)), EVENING[3]) == []


@both
def test_steps_of_five_minutes(kind: type[Server], started: Callable[[type[Server]], Server], tmp_path: Path) -> None:
    report = audit(Gua(tmp_path), started(kind), WHOLE_DAY, "--resolution", "5m")
    assert wrong(report, sums.shown(STEP_MS, keeps_nan=kind is RecordedPrometheus)) == []
