"""What becomes of ticks while their endpoint is down, slow, overloaded, wrong, or hears them twice."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
import trustme
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from fakes.clock import FakeClock
from fakes.host import DESTINATION, HOUR, Cards, Host, show
from fakes.line import Fault, Line
from fakes.otlp import Answer, GrpcReceiver, HttpReceiver, Received, Receiver, Tls
from fakes.spooled import refused
from gua.agent.delivery import Sender
from gua.cli.report import render_report
from gua.core.ports import SpooledTick
from gua.core.tick import Tick
from gua.otlp.decode import decode
from gua.otlp.send import open_endpoint
from gua.report.window import ReportRequest
from gua.spool.queue import Spool
from gua.state.compression import compress
from gua.store.database import open_store
from reliability.promises import assert_none_was_skipped
from servers.agent import Agent, assert_spans_never_overlap, observed_ms
from servers.process import free_ports, poll


def times(body: bytes) -> list[int]:
    """Return the time of each tick in a request, in ms."""
    found = []
    for resource_metrics in ExportMetricsServiceRequest.FromString(body).resource_metrics:
        metric = resource_metrics.scope_metrics[0].metrics[0]
        points = metric.gauge.data_points or metric.sum.data_points
        found.append(points[0].time_unix_nano // 1_000_000)
    return found


def ticks_of(body: bytes) -> list[Tick]:
    """Return the ticks of a request."""
    return [
        decode(ExportMetricsServiceRequest(resource_metrics=[one]).SerializeToString())
        for one in ExportMetricsServiceRequest.FromString(body).resource_metrics
    ]


@dataclass
class Heard:
    """What a receiver took and when, instead of whole requests; ``poison`` are times of ticks that it cannot take."""

    receiver: Receiver
    ticks: list[int] = field(default_factory=list)
    asked_at: list[float] = field(default_factory=list)
    bodies: list[bytes] | None = None
    poison: frozenset[int] = frozenset()
    down: Answer | None = None

    def __post_init__(self) -> None:
        self.receiver.answer_to = self.answer  # type: ignore[method-assign]

    def answer(self, received: Received) -> Answer:
        self.asked_at.append(time.monotonic())
        receiver = self.receiver
        if self.down is not None:
            receiver.stopping.wait(self.down.delay_seconds)
            return self.down
        script = receiver.script
        answer = script.pop(0) if script else Answer()
        found = times(received.body)
        if self.poison & {*found}:
            return receiver.refusal
        if answer.status in {200, "OK"}:
            self.ticks += found
            if self.bodies is not None:
                self.bodies.append(received.body)
        receiver.stopping.wait(answer.delay_seconds)
        return answer


@contextmanager
def sending(
    host: Host,
    url: str,
    *,
    environ: Mapping[str, str] | None = None,
    jitter: Callable[[], float] = lambda: 0.02,
) -> Iterator[Sender]:
    """Deliver what the host spools to the URL, as the agent does: an own thread, an own connection to the spool."""

    def landing() -> closing:  # type: ignore[type-arg]
        return closing(open_endpoint(url, environ=environ or {}, patience_seconds=0))

    sender = Sender(
        DESTINATION,
        queue=lambda: Spool(host.path, destinations=None),
        landing=landing,
        watcher=host.watcher,
        jitter=jitter,
    )
    sender.start()
    try:
        yield sender
    finally:
        sender.stop()
        sender.join(60)
        assert not sender.is_alive()


def assert_sound(host: Host, ticks: Sequence[Tick]) -> None:
    """Check that spans never overlap and cover no more time than passed."""
    assert_spans_never_overlap(ticks)
    assert observed_ms(ticks) <= host.really_ms


class GoingClock(FakeClock):
    """Goes on by itself from where another one stands."""

    def __init__(self, other: FakeClock) -> None:
        super().__init__(other.wall, other.monotonic, other.boot)
        self._since = time.monotonic()

    def wall_ms(self) -> int:
        return self.wall + self._passed_ms()

    def monotonic_ms(self) -> int:
        return self.monotonic + self._passed_ms()

    def _passed_ms(self) -> int:
        return round((time.monotonic() - self._since) * 1000)


def catch_up(host: Host, heard: Heard, *, protocol: str, seconds: float) -> tuple[float, list[float]]:
    """Let the endpoint come back while the agent samples each second in real time.

    Returns how long it took until all that had piled up was there, and how late each tick of that time was spooled,
    in seconds.
    """
    piled_up = [tick.ts_ms for tick in host.spool.peek(DESTINATION, 1_000_000)]
    host.interval_ms = 1000
    clock = GoingClock(host.clock)
    host.start(clock)
    late: list[float] = []
    done = threading.Event()

    def spooled() -> None:
        # From the grid to the disk: the ticks of this second begin 7,000 ms after a whole number of seconds.
        late.append((clock.wall_ms() % 1000) / 1000)

    with sending(host, heard.receiver.url, environ={"OTEL_EXPORTER_OTLP_PROTOCOL": protocol}) as sender:
        host.on_tick = lambda: (spooled(), sender.wake())  # type: ignore[func-returns-value] # both are done
        looping = threading.Thread(target=host.loop(done.wait, clock).run)
        began = time.monotonic()
        looping.start()
        try:
            poll(lambda: len(heard.ticks) >= len(piled_up), "what piled up to arrive", seconds=seconds)
            took = time.monotonic() - began
        finally:
            done.set()
            looping.join(60)
            host.really_ms += round((time.monotonic() - began) * 1000)
        made = host.status()["ticks"]["made"]
        poll(lambda: len(heard.ticks) >= len(piled_up) + made, "the ticks of that time")
    assert heard.ticks[: len(piled_up)] == piled_up
    assert heard.ticks == sorted(set(heard.ticks))
    assert host.skipped() == {}
    return took, late[:-1]


@pytest.mark.reliability
def test_hours_without_the_endpoint_arrive_once_and_in_order_while_ticks_go_on_on_time(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """At full size: .venv/bin/python -m pytest -s tests/reliability/test_endpoint.py --hours-away 24."""
    hours = request.config.getoption("--hours-away")
    with Host(tmp_path / "spool.db", cards=Cards(2, 3)) as host:
        host.run(hours * HOUR)
        piled_up = host.ticks()
        assert len(piled_up) in (120 * hours, 120 * hours + 1)
        assert observed_ms(piled_up) == hours * HOUR * 1000
        assert_sound(host, piled_up)
        size = host.spool.size_bytes()
        with HttpReceiver() as receiver:
            took, late = catch_up(host, Heard(receiver), protocol="http/protobuf", seconds=60)
        assert took <= 60
        assert sorted(late)[len(late) // 2] < 0.5  # a busy machine may wake it too late at times
        show(
            f"{len(piled_up)} ticks of {hours} h ({size / 2**20:.1f} MiB) arrived in {took:.1f} s, once and in order; "
            f"meanwhile {len(late)} ticks were made, the latest {max(late) * 1000:.0f} ms after its second"
        )


def test_hours_without_the_endpoint_arrive_over_grpc_too(tmp_path: Path) -> None:
    with Host(tmp_path / "spool.db") as host:
        host.run(2 * HOUR)
        assert_sound(host, host.ticks())
        with GrpcReceiver() as receiver:
            took, late = catch_up(host, Heard(receiver), protocol="grpc", seconds=180)
        show(f"240 ticks of 2 h arrived over gRPC in {took:.1f} s, once and in order; latest {max(late) * 1000:.0f} ms")


@pytest.mark.parametrize("how", ["answers after 5 s", "drips its answer"])
@pytest.mark.reliability
def test_a_slow_endpoint_does_not_slow_the_ticks(agent: Agent, how: str) -> None:
    with HttpReceiver() as receiver:
        heard = Heard(receiver, bodies=[])
        drips = Answer(status=200, body=b"x" * 600, dribble_seconds=0.1)
        receiver.script = [Answer(delay_seconds=5)] * 2 if how == "answers after 5 s" else [drips] * 2
        began = time.monotonic()
        agent.environ = {"OTEL_EXPORTER_OTLP_TIMEOUT": "6000"}
        agent.start("--endpoint", receiver.url)
        poll(lambda: agent.status()["ticks"]["made"] >= 9, "ticks of some answers' time")
        status = agent.status()
        took = time.monotonic() - began
        made = status["ticks"]["made"]
        waiting = status["destinations"][0]["waiting_ticks"]
        poll(lambda: len({*heard.ticks}) >= made, f"ticks:\n{agent.tail()}")
        agent.stop()
    assert_none_was_skipped(status, kept_waiting_ms=agent.kept_waiting_ms)
    assert heard.bodies is not None
    received = {tick.ts_ms: tick for body in heard.bodies for tick in ticks_of(body)}
    ticks = [received[ts_ms] for ts_ms in sorted(received)]
    # One that waited for an answer would be as late as that; a busy machine may be by less.
    late = max(tick.agent.tick_lateness_seconds or 0 for tick in ticks if tick.agent)
    assert late < 4
    assert_spans_never_overlap(ticks)
    assert observed_ms(ticks) <= (time.monotonic() - began) * 1000
    assert all(after.ts_ms - before.ts_ms <= 4000 for before, after in pairwise(ticks))
    show(f"{how}: {made} ticks in {took:.1f} s, the latest {late * 1000:.0f} ms late; {waiting} waited, all arrived")


BUSY = Answer(status=503, message="queue is full")
FAULTS: Mapping[str, tuple[list[Answer], list[Fault], bool]] = {
    # name: answers, faults of the line, whether ticks arrive twice
    "503 with Retry-After": ([Answer(status=503, retry_after=1)], [], False),
    "429": ([Answer(status=429)] * 3, [], False),
    "503 and 200 in turn": ([BUSY, Answer()] * 3, [], False),
    "502, 504 and 500": ([Answer(status=502), Answer(status=504), Answer(status=500)], [], False),
    "reset in the request": ([], ["reset in the request"] * 3, False),
    "lost answers": ([], ["lose the answer"] * 3, True),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_an_endpoint_or_the_line_breaks_arrives_later_and_in_order(tmp_path: Path, fault: str) -> None:
    answers, line_faults, twice = FAULTS[fault]
    with Host(tmp_path / "spool.db") as host, HttpReceiver() as receiver, Line(receiver.port) as line:
        heard = Heard(receiver)
        receiver.script = list(answers)
        line.faults = list(line_faults)
        host.run(HOUR)
        ticks = host.ticks()
        assert_sound(host, ticks)
        with sending(host, line.url):
            poll(lambda: host.spool.depth(DESTINATION) == 0, "everything to arrive")
        assert (line.faults, receiver.script) == ([], [])
        assert line.broken == len(line_faults)
        assert list(dict.fromkeys(heard.ticks)) == [tick.ts_ms for tick in ticks]
        assert (len(heard.ticks) > len(ticks)) == twice
        delivery = host.status()["destinations"][0]
        assert (delivery["delivered_ticks"], delivery["refused_ticks"]) == (len(ticks), 0)
        assert "\n" not in delivery["last_error"]
        if fault == "503 with Retry-After":
            assert heard.asked_at[1] - heard.asked_at[0] >= 1
        show(f"{fault}: {len(ticks)} ticks made, {len(heard.ticks)} heard, {len({*heard.ticks})} different")


@pytest.mark.engine
def test_ticks_that_arrive_twice_change_nothing_in_the_store(tmp_path: Path) -> None:
    with (
        Host(tmp_path / "spool.db", cards=Cards(2, 3)) as host,
        HttpReceiver() as receiver,
        Line(receiver.port) as line,
    ):
        heard = Heard(receiver, bodies=[])
        line.faults = ["lose the answer"] * 3
        host.run(HOUR)
        ticks = host.ticks()
        assert_sound(host, ticks)
        once = report_of(tmp_path / "once", host.spool.peek(DESTINATION, 1_000_000), now_ms=host.clock.wall)
        with sending(host, line.url):
            poll(lambda: host.spool.depth(DESTINATION) == 0, "everything to arrive")
        assert len(heard.ticks) > len(ticks)
        assert heard.bodies
        again = [
            SpooledTick(id=number, ts_ms=number, raw_length=len(body), blob=compress(body))
            for number, body in enumerate(heard.bodies, start=1)
        ]
        assert report_of(tmp_path / "again", again, now_ms=host.clock.wall) == once
        assert "idle-held" in once
        show(f"{len(ticks)} ticks, {len(heard.ticks)} landed: the same report")


def report_of(folder: Path, batch: Sequence[SpooledTick], *, now_ms: int) -> str:
    """Return the report of a new store in which the batch was landed."""
    out = io.StringIO()
    with open_store(f"chdb://{folder}") as store:
        assert store.land(batch) == []
        render_report(store, ReportRequest(since="2h", now_ms=now_ms), width=100, out=out)
    return out.getvalue()


def test_a_tick_that_is_refused_for_good_is_set_aside_and_the_rest_arrives(tmp_path: Path) -> None:
    with Host(tmp_path / "spool.db") as host, HttpReceiver() as receiver:
        host.run(99 * 30)
        ticks = host.ticks()
        assert len(ticks) == 100
        assert_sound(host, ticks)
        poisoned = ticks[41].ts_ms
        heard = Heard(receiver, poison=frozenset({poisoned}))
        with sending(host, receiver.url):
            poll(lambda: host.spool.depth(DESTINATION) == 0, "the rest to arrive")
        assert sorted(heard.ticks) == [tick.ts_ms for tick in ticks if tick.ts_ms != poisoned]
        assert len(heard.ticks) == 99
        assert [ts_ms for _, ts_ms, _ in refused(tmp_path / "spool.db", DESTINATION)] == [poisoned]
        assert host.spool.stats().refused[DESTINATION] == 1
        delivery = host.status()["destinations"][0]
        assert (delivery["delivered_ticks"], delivery["refused_ticks"], delivery["failing"]) == (99, 1, False)
        show(f"1 of 100 refused: 99 arrived, 1 kept in the spool's refused, {len(heard.asked_at)} requests")


REFUSALS = {
    "no credentials": (401, "OTEL_EXPORTER_OTLP_HEADERS"),
    "not allowed": (403, "OTEL_EXPORTER_OTLP_HEADERS"),
    "wrong path": (404, "check the URL"),
    "no OTLP receiver": (400, "it may be no OTLP receiver"),
}


@pytest.mark.parametrize("wrong", REFUSALS)
def test_an_endpoint_that_refuses_everything_is_waited_for_and_costs_nothing(tmp_path: Path, wrong: str) -> None:
    status, hint = REFUSALS[wrong]
    with Host(tmp_path / "spool.db") as host, HttpReceiver() as receiver:
        heard = Heard(receiver, down=Answer(status=status))
        host.run(30 * 30)
        ticks = host.ticks()
        assert_sound(host, ticks)
        with sending(host, receiver.url):
            poll(lambda: len(heard.asked_at) >= 4, "some attempts")
            delivery = host.status()["destinations"][0]
            assert (delivery["failing"], delivery["refused_ticks"], delivery["delivered_ticks"]) == (True, 0, 0)
            assert delivery["waiting_ticks"] == len(ticks)
            assert hint in delivery["last_error"]
            assert "\n" not in delivery["last_error"]
            heard.down = None  # somebody put it right
            poll(lambda: host.spool.depth(DESTINATION) == 0, "everything to arrive")
        assert heard.ticks == [tick.ts_ms for tick in ticks]
        show(f"{wrong}: {delivery['last_error']}; then all {len(ticks)} arrived")


@contextmanager
def certified(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    """Serve with a certificate for that name; yield the URL and the certificate of the authority."""
    authority = trustme.CA()
    issued = authority.issue_cert(name)
    certificate, key, ca = folder / "server.pem", folder / "server.key", folder / "ca.pem"
    issued.private_key_pem.write_to_path(key)
    authority.cert_pem.write_to_path(ca)
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    with HttpReceiver(tls=Tls(certificate=certificate, key=key)) as receiver:
        yield receiver.url, ca
        assert receiver.requests == []


UNSPEAKABLE = {
    "nobody listens": "cannot reach",
    "certificate of a stranger": "certificate is not trusted (unable to get local issuer certificate)",
    "certificate of another host": "certificate is not valid for",
}


@pytest.mark.parametrize("wrong", UNSPEAKABLE)
def test_an_endpoint_that_cannot_be_spoken_to_is_one_line_in_the_status_and_ticks_wait(
    agent: Agent, tmp_path: Path, wrong: str
) -> None:
    with certified(tmp_path, "collector.example") as (served, authority):
        url = f"http://127.0.0.1:{free_ports(1)[0]}" if wrong == "nobody listens" else served
        if wrong == "certificate of another host":
            agent.environ = {"OTEL_EXPORTER_OTLP_CERTIFICATE": str(authority)}
        complaint = UNSPEAKABLE[wrong]
        began = time.monotonic()
        agent.start("--endpoint", url)
        agent.wait_for_ticks(3, destination="endpoint")
        poll(lambda: agent.status()["destinations"][0]["failing"], "the status to tell")
        shown = " ".join(agent.run("status").stdout.split())
        ticks = agent.ticks("endpoint")
        delivery = agent.status()["destinations"][0]
        waiting = delivery["waiting_ticks"]
        agent.stop()
        elapsed_ms = (time.monotonic() - began) * 1000
    assert shown.count(complaint) == 1
    assert complaint in delivery["last_error"]
    assert "\n" not in delivery["last_error"]
    assert waiting >= len(ticks) >= 3
    after = agent.ticks("endpoint")
    assert len(after) >= waiting
    assert_spans_never_overlap(after)
    assert observed_ms(after) <= elapsed_ms
    assert "Traceback" not in agent.tail()
    show(f"{delivery['last_error']}; {waiting} ticks wait")
