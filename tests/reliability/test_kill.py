"""An agent gets SIGKILL or SIGTERM at random moments: which of its ticks are left."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from driver.fixture import SimulatedDriver
from driver.scenario import Latency, Scenario
from fakes.otlp import Answer, GrpcReceiver, HttpReceiver, Received, Receiver
from gua.core.tick import Tick
from gua.otlp.decode import decode
from servers.agent import Agent, assert_spans_never_overlap, observed_ms, wall_ms
from servers.process import poll

Readings = dict[int, list[int]]

INTERVAL_MS = 1_000
# How late a tick may be on a machine that is busy with four agents that start all the time.
SLACK_MS = 5_000
# How long a reading may take until its tick is on the disk, on such a machine.
IN_PROGRESS_MS = 10_000
FIGURES = ("ends", "before_first_tick", "ticks", "in_progress", "lost")


@dataclass
class Life:
    """One process of an agent, from its start to its end (Unix ms); ``asked_ms`` is when it was sent a signal."""

    pid: int
    began_ms: int
    asked_ms: int = 0
    ended_ms: int = 0
    code: int = 0

    def has(self, tick: Tick) -> bool:
        return self.began_ms < tick.ts_ms <= self.ended_ms


@dataclass
class Story:
    """What one agent went through, and what is left of its ticks."""

    agent: Agent
    receiver: Receiver | None = None
    lives: list[Life] = field(default_factory=list)
    ticks: list[Tick] = field(default_factory=list)

    @property
    def options(self) -> Sequence[str]:
        return () if self.receiver is None else ("--endpoint", self.receiver.url)

    @property
    def destination(self) -> str:
        return "store" if self.receiver is None else "endpoint"

    def start(self) -> Life:
        began_ms = wall_ms()
        self.agent.start(*self.options, wait=False)
        assert self.agent.process is not None
        self.lives.append(Life(self.agent.process.pid, began_ms))
        return self.lives[-1]

    def end_after(self, seconds: float, number: signal.Signals) -> None:
        """Let it live so long, then send the signal and wait for its end."""
        life = self.start()
        process = self.agent.process
        assert process is not None
        # It may have ended by itself, and that must not pass for a kill.
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(seconds)
        life.asked_ms = wall_ms()
        process.send_signal(number)
        life.code = process.wait(60)
        life.ended_ms = wall_ms()
        self.agent.process = None

    def seconds_to_first_tick(self) -> float:
        """Start it once, end it well, and return how long it took to begin."""
        began = time.monotonic()
        life = self.start()
        poll(self.agent.answers, f"the agent to answer:\n{self.agent.tail()}")
        took = time.monotonic() - began
        self.agent.stop()
        life.ended_ms = wall_ms()
        return took

    def finish(self) -> None:
        """Start it once more, stop it well, and read back every tick that was made."""
        self.seconds_to_first_tick()
        spooled = self.agent.ticks(self.destination)
        received = [] if self.receiver is None else list(ticks_of(self.receiver))
        self.ticks = sorted({tick.ts_ms: tick for tick in [*received, *spooled]}.values(), key=lambda tick: tick.ts_ms)


class Moody(Receiver):
    """A receiver that takes its time, and does not take each third request at all."""

    refused = Answer()

    def answer_to(self, received: Received) -> Answer:
        self.asked = getattr(self, "asked", 0) + 1
        self.stopping.wait(self.asked % 5 / 20)
        return self.refused if self.asked % 3 == 0 else super().answer_to(received)


class MoodyHttp(Moody, HttpReceiver):
    refused = Answer(status=503)


class MoodyGrpc(Moody, GrpcReceiver):
    refused = Answer(status="UNAVAILABLE")


def ticks_of(receiver: Receiver) -> Iterator[Tick]:
    """Yield each tick that a receiver has, as often as it came."""
    for request in receiver.requests:
        for resource_metrics in ExportMetricsServiceRequest.FromString(request.body).resource_metrics:
            yield decode(ExportMetricsServiceRequest(resource_metrics=[resource_metrics]).SerializeToString())


def readings(trace: Path) -> Readings:
    """Return when each process began its readings (Unix ms): a reading queries the number of cards once."""
    begun: Readings = defaultdict(list)
    for line in trace.read_text().splitlines():
        moment_us, pid, call, *_ = line.split()
        if call == "nvmlDeviceGetCount_v2":
            begun[int(pid)].append(int(moment_us) // 1000)
    return begun


def spooled_ever(agent: Agent) -> int:
    """Return how many ticks were ever committed to a spool: its ids are never used twice."""
    with closing(sqlite3.connect(agent.home / "spool.db")) as spool:
        return int(spool.execute("SELECT seq FROM sqlite_sequence WHERE name = 'ticks'").fetchone()[0])


def check(story: Story, begun: Readings) -> Counter[str]:
    """Check that a kill cost one agent no tick but those in progress; return the figures."""
    ticks, lives = story.ticks, story.lives
    committed = spooled_ever(story.agent)
    assert [path.name for path in story.agent.home.glob("*damaged*")] == []
    # Everything that was committed is in the spool, or has arrived.
    assert len(ticks) == committed
    assert_spans_never_overlap(ticks)
    assert observed_ms(ticks) <= lives[-1].ended_ms - lives[0].began_ms
    assert all(len(tick.cards) == 3 for tick in ticks)
    cut_short = 0
    least_ms = 0
    for life in lives:
        own = [tick for tick in ticks if life.has(tick)]
        moments = begun[life.pid]
        lost = len(moments) - len(own)
        assert 0 <= lost <= (life.code == -signal.SIGKILL), (life, lost)
        # A reading that has no tick was in progress when the process was killed.
        assert not lost or life.asked_ms - moments[-1] < IN_PROGRESS_MS
        cut_short += lost
        for before, after in pairwise(own):
            # On a machine that is too busy a tick may be missed: then nothing was read in the hole.
            read = [moment for moment in moments if before.ts_ms + 500 < moment < after.ts_ms - 500]
            hole_ms = after.ts_ms - after.cards[0].duration_ms - before.ts_ms
            assert hole_ms <= 2 or not read, "a hole between two ticks of one life"
        if own:
            assert life.ended_ms - own[-1].ts_ms <= INTERVAL_MS + SLACK_MS
            least_ms += life.ended_ms - own[0].ts_ms - INTERVAL_MS - SLACK_MS
    assert sum(any(life.has(tick) for life in lives) for tick in ticks) == len(ticks)
    assert observed_ms(ticks) >= least_ms
    assert story.receiver is None or story.receiver.requests
    return Counter(
        ends=len(lives) - 2,  # the first one and the last one ended well
        before_first_tick=sum(not begun[life.pid] for life in lives),
        ticks=len(ticks),
        in_progress=cut_short,
        lost=committed - len(ticks),
    )


def say(capsys: pytest.CaptureFixture[str], what: str, figures: Counter[str], seconds: float) -> None:
    with capsys.disabled():
        told = ", ".join(f"{name.replace('_', ' ')} {figures[name]}" for name in FIGURES)
        print(f"\n{what} in {seconds:.0f} s: {told}")  # noqa: T201 - the figures of docs/reliability.md


@pytest.fixture
def stories(
    simulated_driver: SimulatedDriver, lab: Scenario, tmp_path: Path, new_agent: Callable[[str], Agent]
) -> Iterator[tuple[list[Story], Path]]:
    """Return four agents, two of them with an endpoint (HTTP and gRPC), and where the driver notes its calls."""
    trace = tmp_path / "trace"
    # A reading takes long enough that many a kill comes in the middle of one.
    slow = Latency("nvmlDeviceGetPowerUsage", 200_000)
    simulated_driver.write(replace(lab, trace=trace, wrong=[slow]))
    with ExitStack() as held:
        http, grpc = held.enter_context(MoodyHttp()), held.enter_context(MoodyGrpc())
        made = [
            Story(new_agent("store 1")),
            Story(new_agent("store 2")),
            Story(new_agent("http"), http),
            Story(new_agent("grpc"), grpc),
        ]
        made[3].agent.environ = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
        yield made, trace


@pytest.mark.reliability
def test_kills_at_random_moments_cost_no_tick_but_those_in_progress(
    stories: tuple[list[Story], Path], capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    told, trace = stories
    began = time.monotonic()
    each = request.config.getoption("--agent-kills") // len(told)

    def live(number: int) -> None:
        moments = random.Random(number)  # noqa: S311 - the same moments in every run
        longest = told[number].seconds_to_first_tick() + 1.2
        for _ in range(each):
            told[number].end_after(moments.uniform(0, longest), signal.SIGKILL)
        told[number].finish()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(live, range(4)))
    begun = readings(trace)
    figures = sum((check(story, begun) for story in told), Counter[str]())
    say(capsys, "kill -9", figures, time.monotonic() - began)
    assert figures["ends"] == each * len(told)
    assert figures["ticks"] > figures["ends"] // 4  # a busy machine starts agents later than its first one reported
    # Nothing half-written: the store takes every tick that was ever spooled, and refuses none.
    report = json.loads(told[0].agent.must("report", "--json"))
    assert report["headline"]["card_ticks"] == 3 * len(told[0].ticks)
    assert told[0].agent.ticks() == []
    assert "refused" not in told[0].agent.run("report").stderr


@pytest.mark.reliability
def test_a_sigterm_at_a_random_moment_costs_nothing(
    stories: tuple[list[Story], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    told, trace = stories
    began = time.monotonic()

    def live(number: int) -> None:
        moments = random.Random(number)  # noqa: S311 - as above
        longest = told[number].seconds_to_first_tick() + 2
        for _ in range(3):
            told[number].end_after(moments.uniform(0, longest), signal.SIGTERM)
        told[number].finish()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(live, range(4)))
    begun = readings(trace)
    for life in (life for story in told for life in story.lives):
        # Before it holds its signals there is nothing yet that an end could cut short.
        assert life.code == 0 or (life.code == -signal.SIGTERM and not begun[life.pid])
    figures = sum((check(story, begun) for story in told), Counter[str]())
    say(capsys, "SIGTERM", figures, time.monotonic() - began)
    assert figures["ends"] == 12
    assert figures["in_progress"] == 0
