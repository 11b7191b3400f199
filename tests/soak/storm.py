"""Bad times for a fleet: every process and both networks fail at random moments, each by a timetable of its own."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from servers.clickhouse import ClickHouseServer
from servers.collector import Collector
from soak.fleet import Fleet, Host
from soak.network import Network

Act = Callable[[], object]


@dataclass(frozen=True)
class Trouble:
    """Something that begins, lasts up to ``seconds`` and is put right."""

    name: str
    begin: Act
    end: Act
    seconds: float


@dataclass(frozen=True)
class Subject:
    """What fails: after a calm of 0.5 to 1.5 times ``calm`` seconds, by one of the ``troubles``."""

    name: str
    calm: float
    troubles: tuple[Trouble, ...]


class Storm:
    """The troubles of a fleet for so many seconds; ``seed`` makes the order and length of all of them.

    A context for as long as the fleet is used: a server ends with the thread that started it.
    """

    def __init__(self, fleet: Fleet, *, seconds: float, seed: int) -> None:
        self._seconds = seconds
        self._seed = seed
        self._subjects = [
            *(_agent(host) for host in fleet.hosts),
            _server("collector", fleet.collector, calm=14),
            _server("server", fleet.server, calm=16),
            _network("agents to collector", fleet.to_collector),
            _network("collector to server", fleet.to_server),
        ]
        self._pool = ThreadPoolExecutor(len(self._subjects))
        self._log = fleet.folder / "storm.log"
        self._writing = threading.Lock()
        self._begun = 0.0
        self._over = threading.Event()
        self.counts: Counter[str] = Counter()

    def history(self) -> str:
        """Return a line for each trouble so far."""
        return self._log.read_text(encoding="utf-8") if self._log.exists() else ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown()

    def rage(self) -> None:
        """Let it all happen and return when the last trouble is over; what fails to come back is raised."""
        self._begun = time.monotonic()
        for working in [self._pool.submit(self._trouble, subject) for subject in self._subjects]:
            working.result()

    def _trouble(self, subject: Subject) -> None:
        chance = random.Random(f"{self._seed}/{subject.name}")  # noqa: S311 - to be had again
        deck: list[Trouble] = []
        try:
            while self._calm(chance.uniform(0.5, 1.5) * subject.calm):
                # Each comes as often as the others, in any order.
                deck = deck or chance.sample(subject.troubles, len(subject.troubles))
                trouble = deck.pop()
                seconds = chance.uniform(0, trouble.seconds)
                self._note(f"{subject.name}: {trouble.name} for {seconds:.1f} s")
                self.counts[f"{subject.name.split('-')[0]}: {trouble.name}"] += 1
                trouble.begin()
                try:
                    self._over.wait(seconds)
                finally:
                    trouble.end()
        except BaseException as error:
            self._note(f"{subject.name}: {error!r}")
            self._over.set()  # the others need not go on for half an hour
            raise

    def _calm(self, seconds: float) -> bool:
        """Wait, and return whether there is time left."""
        left = self._begun + self._seconds - time.monotonic()
        return not self._over.wait(min(seconds, max(0.0, left))) and seconds < left

    def _note(self, line: str) -> None:
        with self._writing, self._log.open("a", encoding="utf-8") as log:
            log.write(f"{time.monotonic() - self._begun:8.2f} {line}\n")


def _agent(host: Host) -> Subject:
    return Subject(
        host.name,
        25,
        (
            Trouble("kill -9", host.kill, host.start, 6),
            Trouble("SIGTERM", host.stop, host.start, 6),
            _paused(host, 8),
        ),
    )


def _server(name: str, process: Collector | ClickHouseServer, calm: float) -> Subject:
    return Subject(
        name,
        calm,
        (
            Trouble("kill -9", process.kill, process.start, 8),
            Trouble("SIGTERM", process.stop, process.start, 8),
            _paused(process, 10),
        ),
    )


def _paused(process: Host | Collector | ClickHouseServer, seconds: float) -> Trouble:
    return Trouble(
        "SIGSTOP",
        lambda: process.send_signal(signal.SIGSTOP),
        lambda: process.send_signal(signal.SIGCONT),
        seconds,
    )


def _network(name: str, network: Network) -> Subject:
    def cut_and_mend() -> None:
        network.cut()
        network.mend()

    return Subject(
        name,
        9,
        (
            Trouble("refuses", network.refuse, network.mend, 6),
            Trouble("resets", network.cut, network.mend, 0),
            Trouble("drops everything, then goes on", network.hold, network.mend, 8),
            Trouble("drops everything, then resets", network.hold, cut_and_mend, 8),
            Trouble("loses the answers", network.lose_answers, network.mend, 5),
        ),
    )


def told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
