"""Delivery of spooled ticks: a drain, a sender to an endpoint, the hourly landing into a store."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fakes.spooled import extend, refused
from gua.agent.delivery import DrainResult, PeriodicLanding, Sender, drain
from gua.core.errors import TransientError, UnavailableError
from gua.core.ports import SpooledTick
from gua.spool.queue import Spool


@dataclass
class Ground:
    """A landing that remembers; refuses the times in ``bad`` and is down once ``down_after`` batches have landed."""

    spool: Spool
    bad: tuple[int, ...] = ()
    down_after: int = 1000
    landed: list[int] = field(default_factory=list)
    waiting_at_landing: list[int] = field(default_factory=list)

    def land(self, batch: Sequence[SpooledTick]) -> Sequence[SpooledTick]:
        if len(self.waiting_at_landing) == self.down_after:
            msg = "down"
            raise TransientError(msg)
        self.waiting_at_landing.append(self.spool.depth("store"))
        self.landed += [tick.ts_ms for tick in batch]
        return [tick for tick in batch if tick.ts_ms in self.bad]


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with Spool(tmp_path / "spool.db") as opened:
        extend(opened, ((number, b"x") for number in range(10)))
        yield opened


def test_everything_lands_once_oldest_first_and_leaves_the_spool(spool: Spool) -> None:
    ground, steps = Ground(spool), []
    assert drain(spool, "store", ground, batch_ticks=4, on_batch=lambda landed, _: steps.append(landed)) == DrainResult(
        landed=10
    )
    assert ground.landed == list(range(10))
    assert steps == [4, 4, 2]
    assert spool.depth("store") == 0


def test_a_batch_leaves_the_spool_only_after_the_next_has_landed(spool: Spool) -> None:
    ground = Ground(spool)
    at_flush = []
    drain(spool, "store", ground, batch_ticks=4, flush=lambda: at_flush.append(spool.depth("store")))
    assert ground.waiting_at_landing == [10, 10, 6]
    assert at_flush == [2]


def test_a_landing_that_goes_down_keeps_what_has_not_landed(spool: Spool) -> None:
    with pytest.raises(TransientError):
        drain(spool, "store", Ground(spool, down_after=1), batch_ticks=4)
    assert [tick.ts_ms for tick in spool.peek("store", 10)] == [4, 5, 6, 7, 8, 9]


def test_what_could_not_be_flushed_stays(spool: Spool) -> None:
    def failing() -> None:
        msg = "no fsync"
        raise OSError(msg)

    with pytest.raises(OSError, match="no fsync"):
        drain(spool, "store", Ground(spool), batch_ticks=4, flush=failing)
    assert [tick.ts_ms for tick in spool.peek("store", 10)] == [8, 9]


def test_refused_ticks_are_kept_counted_and_do_not_hold_up_the_rest(spool: Spool, path: Path) -> None:
    assert drain(spool, "store", Ground(spool, bad=(3, 7)), batch_ticks=4) == DrainResult(landed=8, refused=2)
    assert [ts_ms for _, ts_ms, _ in refused(path, "store")] == [3, 7]
    assert spool.depth("store") == 0


def test_an_empty_spool_lands_nothing(tmp_path: Path) -> None:
    with Spool(tmp_path / "empty.db") as empty:
        assert drain(empty, "store", Ground(empty)) == DrainResult()


PATIENCE_SECONDS = 60.0


@dataclass
class Endpoint:
    """Takes what it is given, once ``down`` is over."""

    down: list[Exception] = field(default_factory=list)
    bad: tuple[int, ...] = ()
    got: list[int] = field(default_factory=list)
    opened: int = 0
    slow: threading.Event | None = None

    def land(self, batch: Sequence[SpooledTick]) -> Sequence[SpooledTick]:
        if self.slow is not None:
            self.slow.wait(PATIENCE_SECONDS)
        if self.down:
            raise self.down.pop(0)
        self.got += [tick.ts_ms for tick in batch if tick.ts_ms not in self.bad]
        return [tick for tick in batch if tick.ts_ms in self.bad]

    @contextlib.contextmanager
    def open(self) -> Iterator[Endpoint]:
        self.opened += 1
        yield self


@dataclass
class RecordedEvents:
    ticks: int = 0
    refused: int = 0
    said: list[str] = field(default_factory=list)

    def delivered(self, destination: str, *, ticks: int, refused: int = 0) -> None:
        assert destination == "endpoint"
        self.ticks += ticks
        self.refused += refused

    def failed(self, destination: str, message: str) -> None:
        assert destination == "endpoint"
        self.said.append(message)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spool.db"


def sender(path: Path, endpoint: Endpoint, events: RecordedEvents, *, ticks_per_second: float = 100_000) -> Sender:
    return Sender(
        "endpoint",
        queue=lambda: Spool(path, destinations=("endpoint",)),
        landing=endpoint.open,
        watcher=events,
        ticks_per_second=ticks_per_second,
        jitter=lambda: 0.001,
    )


def wait_for(endpoint: Endpoint, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(endpoint.got) < count and time.monotonic() < deadline:
        time.sleep(0.005)


def test_ticks_go_as_they_come_oldest_first_and_leave_the_spool(path: Path) -> None:
    endpoint, events = Endpoint(), RecordedEvents()
    with Spool(path, destinations=("endpoint",)) as spool:
        extend(spool, ((number, b"x") for number in range(200)))
        sending = sender(path, endpoint, events)
        sending.start()
        wait_for(endpoint, 200)
        spool.append(200, b"x")
        sending.wake()
        wait_for(endpoint, 201)
        sending.stop()
        sending.join(PATIENCE_SECONDS)
        assert not sending.is_alive()
        assert endpoint.got == list(range(201))
        assert spool.depth("endpoint") == 0
    assert events.ticks == 201
    assert endpoint.opened == 1


def test_an_outage_loses_no_tick_and_each_failure_is_logged(path: Path) -> None:
    endpoint = Endpoint(down=[TransientError("down"), UnavailableError("wrong key"), ValueError("a fault elsewhere")])
    events = RecordedEvents()
    with Spool(path, destinations=("endpoint",)) as spool:
        extend(spool, ((number, b"x") for number in range(10)))
        sending = sender(path, endpoint, events)
        sending.start()
        wait_for(endpoint, 10)
        sending.stop()
        sending.join(PATIENCE_SECONDS)
        assert not sending.is_alive()
        assert endpoint.got == list(range(10))
        assert spool.depth("endpoint") == 0
    assert events.said == ["down", "wrong key", "unexpected ValueError: a fault elsewhere"]


def test_a_retry_after_of_the_server_is_respected(path: Path) -> None:
    endpoint, events = Endpoint(down=[TransientError("busy", retry_after_seconds=0.3)]), RecordedEvents()
    with Spool(path, destinations=("endpoint",)) as spool:
        spool.append(1, b"x")
        sending = sender(path, endpoint, events)
        began = time.monotonic()
        sending.start()
        wait_for(endpoint, 1)
        assert time.monotonic() - began >= 0.3
        sending.stop()
        sending.join(PATIENCE_SECONDS)
        assert not sending.is_alive()


def test_what_is_refused_for_good_is_set_aside_and_the_rest_goes_on(path: Path) -> None:
    endpoint, events = Endpoint(bad=(3, 4)), RecordedEvents()
    with Spool(path, destinations=("endpoint",)) as spool:
        extend(spool, ((number, b"x") for number in range(10)))
        sending = sender(path, endpoint, events)
        sending.start()
        wait_for(endpoint, 8)
        sending.stop()
        sending.join(PATIENCE_SECONDS)
        assert not sending.is_alive()
        assert [ts_ms for _, ts_ms, _ in refused(path, "endpoint")] == [3, 4]
    assert (events.ticks, events.refused) == (8, 2)


def test_what_piled_up_goes_at_a_bounded_rate(path: Path) -> None:
    endpoint, events = Endpoint(), RecordedEvents()
    with Spool(path, destinations=("endpoint",)) as spool:
        extend(spool, ((number, b"x") for number in range(180)))
        sending = sender(path, endpoint, events, ticks_per_second=300)
        began = time.monotonic()
        sending.start()
        wait_for(endpoint, 180)
        assert time.monotonic() - began >= 120 / 300
        sending.stop()
        sending.join(PATIENCE_SECONDS)
        assert not sending.is_alive()


def test_a_stop_in_the_middle_of_a_catch_up_keeps_the_rest(path: Path) -> None:
    endpoint, events = Endpoint(), RecordedEvents()
    with Spool(path, destinations=("endpoint",)) as spool:
        extend(spool, ((number, b"x") for number in range(600)))
        sending = sender(path, endpoint, events, ticks_per_second=60)
        sending.start()
        wait_for(endpoint, 60)
        sending.stop()
        sending.join(PATIENCE_SECONDS)
        assert not sending.is_alive()
        assert len(endpoint.got) + spool.depth("endpoint") == 600


def test_a_slow_endpoint_never_holds_up_the_spool(path: Path) -> None:
    endpoint, events = Endpoint(slow=threading.Event()), RecordedEvents()
    with Spool(path, destinations=("endpoint",)) as spool:
        spool.append(0, b"x")
        sending = sender(path, endpoint, events)
        sending.start()
        began = time.monotonic()
        for number in range(1, 50):
            spool.append(number, b"x")
            sending.wake()
        assert time.monotonic() - began < PATIENCE_SECONDS / 2
        assert endpoint.got == []
        assert endpoint.slow is not None
        endpoint.slow.set()
        wait_for(endpoint, 50)
        sending.stop()
        sending.join(PATIENCE_SECONDS)
        assert not sending.is_alive()
    assert endpoint.got == list(range(50))


def test_a_landing_comes_every_hour_and_sooner_after_a_failure() -> None:
    events = RecordedEvents()
    outcomes: list[DrainResult | Exception] = [UnavailableError("locked"), DrainResult(landed=120, refused=1)]
    done = threading.Event()

    def land(stopping: threading.Event) -> DrainResult:
        if not outcomes:
            done.set()
            stopping.wait(PATIENCE_SECONDS)
            raise TransientError("stopped")
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    landing = PeriodicLanding("endpoint", land=land, watcher=events, every_seconds=0.02, jitter=lambda: 0.5)
    landing.start()
    assert done.wait(PATIENCE_SECONDS)
    landing.stop()
    landing.join(PATIENCE_SECONDS)
    assert not landing.is_alive()
    assert (events.ticks, events.refused, events.said) == (120, 1, ["locked"])


def test_a_landing_that_fails_in_an_unforeseen_way_is_tried_again() -> None:
    events = RecordedEvents()
    outcomes = [BlockingIOError(11, "Resource temporarily unavailable")]  # no process to be had
    done = threading.Event()

    def land(_stopping: threading.Event) -> DrainResult:
        if outcomes:
            raise outcomes.pop(0)
        done.set()
        return DrainResult(landed=7, refused=0)

    landing = PeriodicLanding("endpoint", land=land, watcher=events, every_seconds=0.02, jitter=lambda: 0.5)
    landing.start()
    assert done.wait(PATIENCE_SECONDS)
    landing.stop()
    landing.join(PATIENCE_SECONDS)
    assert not landing.is_alive()
    assert events.said == ["unexpected BlockingIOError: [Errno 11] Resource temporarily unavailable"]


def test_an_agent_that_was_just_started_lands_nothing_yet() -> None:
    begun = threading.Event()

    def land(_stopping: threading.Event) -> DrainResult:
        begun.set()
        return DrainResult(landed=0, refused=0)

    landing = PeriodicLanding("store", land=land, watcher=RecordedEvents(), every_seconds=3600, jitter=lambda: 0.0)
    landing.start()
    assert not begun.wait(0.1)
    landing.stop()
    landing.join(PATIENCE_SECONDS)
    assert not landing.is_alive()
