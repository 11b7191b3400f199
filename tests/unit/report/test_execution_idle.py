"""Execution-idle (arXiv 2604.04745) by our own columns, for a trace with every sample known."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest

from fakes.clock import FakeClock
from fakes.nvml import GIB, Card, FakeDriver, Process
from gua.agent.sampler import Sampler
from gua.core.ports import Mark, RawProcess, SpooledTick
from gua.core.tick import Origin, ProcessReading, Tick
from gua.core.words import Source
from gua.nvml.reader import NvmlReader
from gua.otlp.encode import encode
from gua.state.compression import compress
from gua.store.database import open_store

pytestmark = pytest.mark.engine

PERIOD_MS: Final = 200
TICK_MS: Final = 30_000
TICKS: Final = 60
# As docs/usefulness.md has it.
QUERY: Final = """
SELECT
    sum(idle_time_ms) / sum(sampled_ms) AS execution_idle,
    sumIf(duration_ms, state = 'idle-held') / sum(duration_ms) AS by_means
FROM gua.card_states
WHERE state IN ('active', 'idle-held')
"""


class _People:
    """All processes belong to one user and are those that the driver lists."""

    def identify(self, process: RawProcess) -> ProcessReading:
        return ProcessReading(pid=process.pid, uid=1000, memory_bytes=process.memory_bytes)


def trace(seed: int) -> Iterator[int]:
    """Yield the utilization of each sample, in percent: kernels for 1 to 20 s, then waits, now and then long ones."""
    rng = Random(seed)  # noqa: S311 - a simulation, no secret
    while True:
        yield from [rng.choice((45, 97, 100))] * rng.randint(5, 100)
        yield from [rng.choice((0, 0, 4))] * rng.randint(5, 600 if rng.random() < 0.1 else 60)


def recorded(seed: int) -> tuple[list[Tick], float]:
    """Return what an agent makes of a trace, and the share of its samples that were idle."""
    clock = FakeClock(wall_ms=1_774_413_000_000)
    card = Card("GPU-a", compute=[Process(4711, 20 * GIB)], used=20 * GIB)
    reader = NvmlReader(clock, FakeDriver(card))
    origin = Origin(host="traced", source=Source.AGENT, interval_ms=TICK_MS)
    agent = Sampler(cards=reader, processes=_People(), clock=clock, origin=origin, initial_pid_namespace=True)
    samples, at_ms, seen = trace(seed), clock.wall_ms(), []
    mark: Mark | None = None
    ticks: list[Tick] = []
    for _ in range(TICKS + 1):
        for _ in range(TICK_MS // 5_000):
            for _ in range(5_000 // PERIOD_MS):
                at_ms += PERIOD_MS
                percent = next(samples)
                card.ring.append((at_ms * 1000, percent))
                card.gpu = percent
                seen.append(percent)
            del card.ring[:-100]
            clock.advance(5_000)
            reader.drain()
        sample = agent.sample(mark)
        mark = sample.mark
        if sample.tick is not None:
            ticks.append(sample.tick)
    summary = seen[TICK_MS // PERIOD_MS :]
    return ticks[1:], sum(percent < 10 for percent in summary) / len(summary)


def test_execution_idle_matches_the_truth_where_means_of_30_s_do_not(
    tmp_path: Path, made_store: Callable[[Path], str], capsys: pytest.CaptureFixture[str]
) -> None:
    ticks, truth = recorded(seed=3)
    assert len(ticks) == TICKS
    with open_store(made_store(tmp_path / "store")) as store:
        raw = [(tick.ts_ms, encode(tick)) for tick in ticks]
        spooled = [SpooledTick(id=ts, ts_ms=ts, raw_length=len(body), blob=compress(body)) for ts, body in raw]
        assert store.land(spooled) == []
        (row,) = store.select(QUERY, {})
    by_samples, by_means = row["execution_idle"], row["by_means"]
    with capsys.disabled():
        summary = f"truth {truth:.4f}, by samples {by_samples:.4f}, by means of 30 s {by_means:.4f}"
        sys.stdout.write(f"\nexecution-idle: {summary}\n")
    assert by_samples == pytest.approx(truth, abs=0.0005)
    assert abs(by_means - truth) > 0.1
