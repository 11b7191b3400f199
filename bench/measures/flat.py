"""Memory of an agent that meets another process at every tick: reader, identity, spool and board, in simulated time.

A process of its own, started by bench_agent.py with the number of ticks; prints a line of JSON at each checkpoint.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from measures.figures import rss_mb

from fakes.clock import FakeClock
from fakes.nvml import Card, FakeDriver, Process, Use
from gua.agent.delivery import drain
from gua.agent.outbox import Outbox
from gua.agent.sampler import QueueHealth, Sampler
from gua.agent.status import Board
from gua.core.ports import SpooledTick
from gua.core.tick import Origin
from gua.core.words import Source
from gua.identity.process import Owners, ProcessIdentity
from gua.nvml.reader import NvmlReader
from gua.otlp.encode import encode
from gua.spool.queue import Spool
from gua.spool.stats import SpoolStats

CHECKPOINTS = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)
CARDS, ON_EACH, INTERVAL_MS, DELIVERED_EVERY = 8, 10, 30_000, 10


@dataclass(frozen=True)
class Facts:
    comm: str
    start_ticks: int
    uid: int
    cgroup: str
    is_dead: bool = False


class Table:
    """A host on which every process has a container and a name of its own."""

    ticks_per_second = 100

    def process(self, pid: int) -> Facts:
        container = f"{pid:064x}"
        return Facts(f"job-{pid}", 100 * pid, 1000 + pid % 3000, f"0::/system.slice/docker-{container}.scope\n")

    stat = process


class Everything:
    """Takes every tick."""

    def land(self, batch: Sequence[SpooledTick]) -> Sequence[SpooledTick]:
        del batch
        return ()


def replace_one(cards: Sequence[Card], number: int, clock: FakeClock) -> None:
    """Let one process end and another begin; and let the card's rings go on."""
    card = cards[number % CARDS]
    card.compute[number // CARDS % ON_EACH] = Process(1_000 + number)
    for each in cards:
        end_us = clock.wall * 1000
        each.ring = [(end_us - 166_667 * back, (number + back) % 101) for back in range(30, 0, -1)]
        each.uses = [Use(process.pid, end_us - 1000, 7) for process in each.compute[:5]]


def main() -> None:
    ticks = int(sys.argv[1])
    clock = FakeClock(wall_ms=1_774_413_000_000)
    cards = [
        Card(f"GPU-{index:08d}", compute=[Process(1 + index * ON_EACH + place) for place in range(ON_EACH)])
        for index in range(CARDS)
    ]
    driver = FakeDriver(*cards)
    origin = Origin(host="bench", source=Source.AGENT, interval_ms=INTERVAL_MS)
    with tempfile.TemporaryDirectory(prefix="gua-bench-") as folder, Spool(Path(folder) / "spool.db") as spool:
        outbox = Outbox(spool)
        sampler = Sampler(
            cards=(reader := NvmlReader(clock, driver)),
            processes=ProcessIdentity(
                Table(),
                Owners(lambda uid: f"user{uid}"),
                boot_time_ms=1_700_000_000_000,
                monotonic=lambda: clock.monotonic / 1000,
            ),
            clock=clock,
            origin=origin,
            initial_pid_namespace=True,
        )
        board = Board(
            pid=1,
            version="0",
            host="bench",
            started_ms=clock.wall,
            interval_ms=INTERVAL_MS,
            destinations=[("store", "")],
            clock=clock,
            spool=lambda: SpoolStats(ticks=0, bytes=0),
            in_memory=lambda: 0,
        )
        begun = time.process_time()
        for number in range(1, ticks + 1):
            clock.advance(INTERVAL_MS)
            replace_one(cards, number, clock)
            stats = spool.stats()
            health = QueueHealth(spool_ticks=stats.ticks, spool_bytes=stats.bytes, dropped_ticks=stats.dropped)
            sample = sampler.sample(outbox.mark, lateness_ms=0, health=health)
            if sample.tick is None:
                sys.exit(f"no tick: {sample.outcome}")
            outbox.put(sample.tick.ts_ms, encode(sample.tick), sample.mark)
            board.ticked(sample.tick, lateness_ms=0)
            driver.asked.clear()
            if number % DELIVERED_EVERY == 0:
                drain(spool, "store", Everything())
                board.status()
            if number in CHECKPOINTS or number == ticks:
                cpu_ms = (time.process_time() - begun) * 1000 / number
                print(json.dumps({"ticks": number, "rss_mb": rss_mb(), "cpu_ms": cpu_ms}), flush=True)
        reader.close()


if __name__ == "__main__":
    main()
