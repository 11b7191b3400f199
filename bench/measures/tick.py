"""The CPU time of a tick: the whole loop, spool and delivery of an agent in simulated time, with the real nvidia-ml-py.

A process of its own, started by bench_agent.py on a simulated driver; prints JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path

from measures.simulated import FileClock, MeteredDriver

from gua.agent.delivery import Sender
from gua.agent.logs import Changes, open_log
from gua.agent.loop import AgentEvents, Loop
from gua.agent.notify import Notifier
from gua.agent.outbox import Outbox
from gua.agent.sampler import QueueHealth, Sampler
from gua.agent.status import Board
from gua.allocation.sources import Sources
from gua.app.agent_process import give_back_memory
from gua.app.host import owners_of
from gua.app.settings import AllocationSettings, open_allocations
from gua.core.tick import Origin, Source  # Source is in core.words now; older versions are measured, too
from gua.identity.process import ProcessIdentity
from gua.nvml.reader import NvmlReader
from gua.otlp.encode import encode
from gua.procfs.reader import ProcFs
from gua.spool.queue import Spool

WARM_UP, BLOCK = 10, 20


class BenchEvents(AgentEvents):
    """Says when a delivery came to an end, either way."""

    def __init__(self, clock: FileClock, log: Path, destination: str, spool: Spool, interval_ms: int) -> None:
        super().__init__(
            board=Board(
                pid=os.getpid(),
                version="0",
                host="bench",
                started_ms=clock.wall_ms(),
                interval_ms=interval_ms,
                destinations=[(destination, "")],
                clock=clock,
                spool=spool.stats,
                in_memory=lambda: 0,
            ),
            changes=Changes(open_log(log)),
            notifier=Notifier({}),
            also_alive=lambda: None,
        )
        self.done = threading.Event()
        self.trouble: str | None = None

    def delivered(self, destination: str, *, ticks: int, refused: int = 0) -> None:
        super().delivered(destination, ticks=ticks, refused=refused)
        self.done.set()

    def failed(self, destination: str, message: str) -> None:
        super().failed(destination, message)
        self.trouble = message
        self.done.set()


class OnFoot:
    """An agent's loop that waits by moving the clock; with an endpoint each tick is delivered before the next."""

    def __init__(  # noqa: PLR0913 - what an agent is made of
        self,
        held: ExitStack,
        clock_file: Path,
        interval_ms: int,
        endpoint: str | None,
        allocations: Path | None = None,
        *,
        activity: bool = False,
    ) -> None:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="gua-bench-")))
        self.clock, self.driver = FileClock(clock_file), MeteredDriver()
        destination = "otlp" if endpoint else "store"
        spool = held.enter_context(Spool(folder / "spool.db", destinations=[destination]))
        self.told = BenchEvents(self.clock, folder / "log", destination, spool, interval_ms)
        cards = NvmlReader(self.clock, self.driver, **({"with_activity": True} if activity else {}))
        held.callback(cards.close)
        self._sender = None if endpoint is None else _sender(folder / "spool.db", endpoint, self.told)
        sources = AllocationSettings(sources=() if allocations is None else ("files",), folder=allocations)
        self._loop = self._made(cards, spool, interval_ms, open_allocations(sources))
        self._left = 0

    def run(self, ticks: int) -> None:
        """Make some ticks, with every drain between them."""
        self._left = ticks
        self._loop.run()

    def block(self) -> dict[str, float]:
        """Make ticks with the meter of NVML's calls, and as many without; return the CPU a tick of both in ms."""
        self.driver.metering = True
        nvml_ns = self.driver.spent_ns
        self.run(BLOCK)
        nvml_ns = self.driver.spent_ns - nvml_ns
        self.driver.metering = False
        before_ns = time.process_time_ns() - self.clock.spent_ns
        self.run(BLOCK)
        whole_ns = time.process_time_ns() - self.clock.spent_ns - before_ns
        return {"ours_ms": (whole_ns - nvml_ns) / BLOCK / 1e6, "nvml_ms": nvml_ns / BLOCK / 1e6}

    def start(self) -> None:
        if self._sender is not None:
            self._sender.start()
        self._loop.first()
        give_back_memory()  # as the agent's process does once it is ready

    def _made(self, cards: NvmlReader, spool: Spool, interval_ms: int, allocations: Sources | None) -> Loop:
        def health() -> QueueHealth:
            now = spool.stats()
            return QueueHealth(spool_ticks=now.ticks, spool_bytes=now.bytes, dropped_ticks=now.dropped)

        def wait(seconds: float) -> bool:
            self.clock.advance(round(seconds * 1000))
            return seconds == 0 and self._left <= 1

        procfs = ProcFs()
        return Loop(
            sampler=Sampler(
                cards=cards,
                processes=ProcessIdentity(
                    procfs, owners_of(procfs), boot_time_ms=1, monotonic=lambda: self.clock.monotonic_ms() / 1000
                ),
                clock=self.clock,
                origin=Origin(host="bench", source=Source.AGENT, interval_ms=interval_ms),
                initial_pid_namespace=True,
                allocations=allocations,
            ),
            cards=cards,
            outbox=Outbox(spool),
            clock=self.clock,
            interval_ms=interval_ms,
            phase=0,
            encode=encode,
            wait=wait,
            watcher=self.told,
            health=health,
            on_tick=self._ticked,
        )

    def _ticked(self) -> None:
        self._left -= 1
        if self._sender is not None:
            self.told.done.clear()
            self._sender.wake()
            if not self.told.done.wait(30) or self.told.trouble:
                sys.exit(f"not delivered: {self.told.trouble}")


def _sender(spool: Path, endpoint: str, told: BenchEvents) -> Sender:
    from gua.otlp.send import open_endpoint  # noqa: PLC0415 - as the agent does: only with an endpoint

    return Sender(
        "otlp",
        queue=lambda: Spool(spool, destinations=None),
        landing=lambda: closing(open_endpoint(endpoint, environ=os.environ, patience_seconds=0)),
        watcher=told,
        ticks_per_second=1e9,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("clock", type=Path)
    parser.add_argument("--ticks", type=int, default=100)
    parser.add_argument("--interval-ms", type=int, default=30_000)
    parser.add_argument("--endpoint")
    parser.add_argument("--allocations", type=Path, help="a folder with files of allocations; without it nobody looks")
    parser.add_argument("--activity", action="store_true", help="performance counters are read, too")
    options = parser.parse_args()
    with ExitStack() as held:
        agent = OnFoot(
            held,
            options.clock,
            options.interval_ms,
            options.endpoint,
            options.allocations,
            activity=options.activity,
        )
        agent.driver.metering = False
        agent.start()
        agent.run(WARM_UP)
        blocks = [agent.block() for _ in range(max(1, options.ticks // BLOCK // 2))]
        sys.stdout.write(json.dumps({"blocks": blocks, "calls": agent.driver.calls / BLOCK / len(blocks)}))


if __name__ == "__main__":
    main()
