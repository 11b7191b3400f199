"""An agent in this process: the real loop, sampler, encoder, spool and outbox on cards and a clock that tests move."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fakes.clock import FakeClock
from gua.agent.logs import Changes
from gua.agent.loop import AgentEvents, Loop
from gua.agent.notify import Notifier
from gua.agent.outbox import Outbox
from gua.agent.sampler import QueueHealth, Sampler
from gua.agent.status import Board
from gua.core.ports import CardReader, Clock, RawCard, RawProcess
from gua.core.tick import CardReading, Origin, ProcessReading, ReadError, Tick
from gua.core.words import ProcessList, Source
from gua.otlp.decode import decode
from gua.otlp.encode import encode
from gua.spool.queue import Spool
from gua.spool.stats import SpoolStats
from gua.state.compression import decompress

GIB = 2**30
HOUR = 3600
INTERVAL_MS = 30_000
DESTINATION = "endpoint"


def show(figures: str) -> None:
    """Print what a test found out (``pytest -s``)."""
    print(f"\n{figures}")  # noqa: T201 - the figures of docs/reliability.md


@dataclass
class Cards:
    """``count`` cards with ``processes`` on each; reading them takes no time."""

    count: int = 1
    processes: int = 0

    def read(self) -> tuple[Sequence[RawCard], Sequence[ReadError]]:
        return [self._card(number) for number in range(self.count)], []

    def _card(self, number: int) -> RawCard:
        return RawCard(
            reading=CardReading(
                uuid=f"GPU-{number:08d}-0000-0000-0000-000000000000",
                duration_ms=1,
                gpu_time_ms=0,
                index=number,
                name="NVIDIA H100 80GB HBM3",
                process_list=ProcessList.KNOWN,
                utilization=0.5,
                memory_used_bytes=self.processes * GIB,
                memory_limit_bytes=80 * GIB,
                memory_reserved_bytes=GIB // 2,
                power_watts=300.0 + number,
                temperature_celsius=50.0,
            ),
            gpu_fraction=(1, 1),
            processes=tuple(
                RawProcess(
                    pid=1000 * number + each + 1, lists=frozenset({"compute"}), memory_bytes=GIB, utilization=0.05
                )
                for each in range(self.processes)
            ),
        )

    def drain(self) -> None:
        pass

    def close(self) -> None:
        pass


class People:
    """Reports of a process what the driver reported, and an owner."""

    def identify(self, process: RawProcess) -> ProcessReading:
        return ProcessReading(
            pid=process.pid,
            created_ms=1_700_000_000_000 + process.pid,
            owner=f"user{process.pid % 7}",
            uid=1000 + process.pid % 7,
            comm="python3",
            memory_bytes=process.memory_bytes,
            utilization=process.utilization,
        )


@dataclass
class Host:
    """One agent after the other on a spool; what it was put into lives on from one to the next.

    ``really_ms`` is the time that passed, whatever the clocks say.
    """

    path: Path
    clock: FakeClock = field(default_factory=FakeClock)
    cards: CardReader = field(default_factory=Cards)
    interval_ms: int = INTERVAL_MS
    max_waiting: int = 256
    really_ms: int = 0
    on_tick: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.began = self.clock.wall
        self.spool = Spool(self.path, destinations=(DESTINATION,))
        self.start()

    def start(self, clock: Clock | None = None) -> None:
        """Be a new agent that knows what is in the spool, and no more."""
        now = clock or self.clock
        self.outbox = Outbox(self.spool, max_ticks=self.max_waiting)
        self._sampler = Sampler(
            cards=self.cards,
            processes=People(),
            clock=now,
            origin=Origin(host="gpu01", source=Source.AGENT, interval_ms=self.interval_ms),
            initial_pid_namespace=True,
        )
        self.board = Board(
            pid=os.getpid(),
            version="0",
            host="gpu01",
            started_ms=now.wall_ms(),
            interval_ms=self.interval_ms,
            destinations=[(DESTINATION, "its URL")],
            clock=now,
            spool=self._stats,
            in_memory=lambda: self.outbox.waiting,
        )
        self.watcher = AgentEvents(
            board=self.board,
            changes=Changes(logging.getLogger("host")),
            notifier=Notifier({}),
            also_alive=lambda: None,
        )

    def loop(self, wait: Callable[[float], bool], clock: Clock | None = None) -> Loop:
        """Return the agent's loop; ``wait`` as the loop has it."""
        return Loop(
            sampler=self._sampler,
            cards=self.cards,
            outbox=self.outbox,
            clock=clock or self.clock,
            interval_ms=self.interval_ms,
            phase=7_000 % self.interval_ms,
            encode=encode,
            wait=wait,
            watcher=self.watcher,
            health=QueueHealth,
            on_tick=self.on_tick,
        )

    def run(self, seconds: float, events: Mapping[float, Callable[[], None]] | None = None) -> None:
        """Let that much time pass in the running agent; ``events`` happen so many seconds from now.

        The time that an event takes comes on top.
        """
        passed_ms, end_ms = 0, round(seconds * 1000)
        due = sorted((round(at * 1000), number) for number, at in enumerate(events or ()))
        happen = list((events or {}).values())

        def wait(step: float) -> bool:
            nonlocal passed_ms
            target_ms = min(passed_ms + round(step * 1000), end_ms)
            while due and due[0][0] <= target_ms:
                at_ms, number = due.pop(0)
                self.pass_(at_ms - passed_ms)
                passed_ms = at_ms
                happen[number]()
            self.pass_(target_ms - passed_ms)
            passed_ms = target_ms
            return passed_ms >= end_ms

        self.loop(wait).run()

    def pass_(self, milliseconds: int) -> None:
        """Let time pass on all clocks."""
        self.clock.advance(milliseconds)
        self.really_ms += milliseconds

    def step(self, seconds: float) -> None:
        """Set the wall clock by so much; no time passes."""
        self.clock.wall += round(seconds * 1000)

    def suspend(self, seconds: float) -> None:
        """Let time pass that the monotonic clock does not see."""
        self.clock.wall += round(seconds * 1000)
        self.really_ms += round(seconds * 1000)

    def ticks(self) -> list[Tick]:
        """Return what waits in the spool, oldest first."""
        return [decode(decompress(tick.blob)) for tick in self.spool.peek(DESTINATION, 1_000_000)]

    def status(self) -> dict[str, Any]:
        """Return what the agent would show."""
        return self.board.status()

    def skipped(self) -> dict[str, int]:
        """Return the ticks that were due and not made, by reason."""
        found: dict[str, int] = self.status()["ticks"]["skipped"]
        return found

    def _stats(self) -> SpoolStats:
        stats = self.spool.stats()
        return replace(stats, dropped=stats.dropped + self.outbox.dropped)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.spool.close()
