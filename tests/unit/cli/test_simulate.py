"""`gua simulate` as a process: what it sends, where it waits, and how it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from fakes.otlp import HttpReceiver
from gua.cli.main import main
from gua.core.tick import Tick
from gua.core.words import Source
from gua.otlp.decode import decode
from gua.spool.queue import Spool
from servers.gua import COMMAND
from servers.process import free_ports, poll

WRONG = {
    "no card": ["--gpus", "0"],
    "too short an interval": ["--interval", "999ms"],
    "not a history": ["--history", "always"],
    "no endpoint": ["--endpoint", "ftp://127.0.0.1"],
}
Start = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def begin(endpoint: str) -> subprocess.Popen[str]:
        words = ["simulate", "--endpoint", endpoint, "--state", str(tmp_path / "state")]
        words += ["--interval", "1s", "--history", "30s", "--gpus", "2"]
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("GUA_", "OTEL_"))}
        environ |= {"GUA_ENDPOINT": "http://127.0.0.1:1", "OTEL_RESOURCE_ATTRIBUTES": "team=vision"}
        started.append(
            subprocess.Popen(
                [str(COMMAND), *words], env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        )
        return started[-1]

    yield begin
    for each in started:
        each.kill()
        each.communicate()


def sent(receiver: HttpReceiver) -> list[Tick]:
    """Return every tick that the receiver was sent, in the order of their coming."""
    resources = [
        resource
        for request in list(receiver.requests)
        for resource in ExportMetricsServiceRequest.FromString(request.body).resource_metrics
    ]
    return [decode(ExportMetricsServiceRequest(resource_metrics=[each]).SerializeToString()) for each in resources]


def live(receiver: HttpReceiver, since_ms: int) -> bool:
    return any(tick.ts_ms > since_ms for tick in sent(receiver))


def end(process: subprocess.Popen[str]) -> tuple[str, str]:
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out, err


@pytest.mark.parametrize("options", WRONG.values(), ids=list(WRONG))
def test_wrong_options_are_refused_in_one_line_and_leave_nothing(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    assert main(["simulate", "--endpoint", "http://127.0.0.1:1", "--state", str(state), *options]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("gua: ")
    assert printed.err.count("\n") == 1
    assert not state.exists()


def test_it_sends_its_last_days_and_then_what_happens(start: Start) -> None:
    began_ms = time.time_ns() // 1_000_000
    with HttpReceiver() as receiver:
        process = start(receiver.url)
        poll(lambda: sent(receiver), "the first tick")
        first_ms = time.time_ns() // 1_000_000
        poll(lambda: live(receiver, began_ms + 3_000), "ticks of now")
        out, err = end(process)
        ticks = sent(receiver)

    assert (err, out.count("\n")) == ("", 1)
    assert out.startswith("simulating simulated-host: from 30s ago, then a tick every 1s, to http://127.0.0.1:")
    assert {(tick.origin.host, tick.origin.source) for tick in ticks} == {("simulated-host", Source.SIMULATOR)}
    assert ticks[0].origin.attributes == (("team", "vision"),)
    assert began_ms - 31_000 < ticks[0].ts_ms < first_ms - 28_000  # it may have taken its time to start
    assert_once_and_without_holes(ticks)


def test_ticks_wait_while_the_endpoint_is_away(start: Start, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    process = start(f"http://127.0.0.1:{port}")
    poll((tmp_path / "state" / "alive").exists, "it to live without an endpoint")
    with HttpReceiver(port=port) as receiver:
        poll(lambda: len(sent(receiver)) > 30, "the ticks that waited")
        out, err = end(process)
        ticks = sent(receiver)

    assert err.count("\n") == 1
    assert "ticks wait, trying again" in err
    assert "delivering again" in out
    assert_once_and_without_holes(ticks)


def test_killed_and_started_again_it_goes_on(start: Start, tmp_path: Path) -> None:
    with HttpReceiver() as receiver:
        first = start(receiver.url)
        poll(lambda: len(sent(receiver)) > 30, "ticks before")
        first.kill()
        first.wait()
        again_ms = time.time_ns() // 1_000_000
        second = start(receiver.url)
        poll(lambda: live(receiver, again_ms + 2_000), "ticks after")
        end(second)
        ticks = sent(receiver)

    # What was on its way at the kill may come twice, but is the same.
    once = {tick.ts_ms: tick for tick in ticks}
    assert all(once[tick.ts_ms] == tick for tick in ticks)
    assert_once_and_without_holes([once[ts_ms] for ts_ms in sorted(once)])
    with Spool(tmp_path / "state" / "spool.db", destinations=None) as spool:
        assert spool.peek("endpoint", 1) == []


def assert_once_and_without_holes(ticks: Sequence[Tick]) -> None:
    """Hold ticks, as they came, to the time of one agent; a restart may leave a part of an interval out."""
    for before, after in pairwise(ticks):
        assert after.ts_ms - before.ts_ms < 3_000
        for card in after.cards:
            assert after.ts_ms - card.duration_ms >= before.ts_ms
