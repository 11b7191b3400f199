"""How well bursts are measured: the real nvidia-ml-py in simulated time, beside the instant reading.

A process of its own, started by bench_agent.py on a simulated driver; prints JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from measures.simulated import FileClock

from gua.agent.loop import DRAIN_EVERY_MS
from gua.agent.sampler import Sampler
from gua.core.ports import Mark, RawCard, RawProcess
from gua.core.tick import Origin, ProcessReading, ReadError
from gua.core.words import Source
from gua.nvml.reader import NvmlReader

INTERVAL_MS = 30_000


class Overheard:
    """A reader whose instant readings are kept."""

    def __init__(self, clock: FileClock) -> None:
        self._reader = NvmlReader(clock)
        self.instant: dict[str, float | None] = {}
        self.drain, self.close = self._reader.drain, self._reader.close

    def read(self) -> tuple[Sequence[RawCard], Sequence[ReadError]]:
        cards, errors = self._reader.read()
        self.instant = {raw.reading.uuid: raw.reading.utilization for raw in cards}
        return cards, errors


class NoFacts:
    """Knows no process."""

    def identify(self, process: RawProcess) -> ProcessReading:
        return ProcessReading(pid=process.pid)


def main() -> None:
    clock = FileClock(Path(sys.argv[1]))
    cards = Overheard(clock)
    sampler = Sampler(
        cards=cards,
        processes=NoFacts(),
        clock=clock,
        origin=Origin(host="bench", source=Source.AGENT, interval_ms=INTERVAL_MS),
        initial_pid_namespace=True,
    )
    mark: Mark | None = None
    rows = []
    for number in range(int(sys.argv[2]) + 1):
        for _ in range(INTERVAL_MS // DRAIN_EVERY_MS - 1):
            clock.advance(DRAIN_EVERY_MS)
            if number:
                cards.drain()
        clock.advance(DRAIN_EVERY_MS)
        sample = sampler.sample(mark)
        if sample.tick is not None:
            mark = sample.mark
            if number:  # the first reading has nothing before it to measure from
                rows.append(
                    {
                        "ts_ms": sample.tick.ts_ms,
                        "seconds": {card.uuid: card.duration_ms / 1000 for card in sample.tick.cards},
                        "mean": {card.uuid: card.utilization for card in sample.tick.cards},
                        "instant": cards.instant,
                    }
                )
    cards.close()
    sys.stdout.write(json.dumps(rows))


if __name__ == "__main__":
    main()
