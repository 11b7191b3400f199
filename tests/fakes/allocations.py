"""Allocations of a host's cards in which everything happens that is hard to add up, the same for the same seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from gua.core.allocation import Allocation, AllocationLook, AllocationMatcher, SourceHealth
from gua.core.tick import AllocationSourceReading, CardReading, Tick

SOURCES: Final = ("slurm", "kubernetes", "gua")
_OWNERS: Final = ("ana", "bo", "chen", "zoe", None)


@dataclass
class _Scheduler:
    """What the sources say: jobs come and go in the middle of ticks, on one card or two; now and then one fails."""

    rng: Random
    jobs: list[Allocation] = field(default_factory=list)
    made: int = 0
    failed: dict[str, str | None] = field(default_factory=lambda: dict.fromkeys(SOURCES))

    def look(self, since_ms: int, now_ms: int, cards: list[str]) -> AllocationLook:
        """Return every allocation that covers any time since the last look, and which sources failed."""
        rng = self.rng
        self.jobs = [job for job in self.jobs if job.until_ms is None or job.until_ms > since_ms]
        for place, job in enumerate(self.jobs):
            if job.until_ms is None and rng.random() < 0.04:
                self.jobs[place] = replace(job, until_ms=rng.choice((now_ms, rng.randint(since_ms + 1, now_ms))))
        if rng.random() < 0.12:
            self.jobs.append(self._job(since_ms, now_ms, cards))
        for source in SOURCES:
            if rng.random() < 0.03:
                self.failed[source] = rng.choice((None, None, "no answer within 3 s"))
        readable = tuple(job for job in self.jobs if self.failed[job.source] is None)
        return AllocationLook(
            allocations=readable,
            sources=tuple(SourceHealth(source=source, reason=self.failed[source]) for source in SOURCES),
        )

    def _job(self, since_ms: int, now_ms: int, cards: list[str]) -> Allocation:
        rng = self.rng
        self.made += 1
        source = rng.choice(SOURCES)
        return Allocation(
            source=source,
            id=str(self.made),
            cards=frozenset(rng.sample(cards, rng.choice((1, 1, 2)))),
            since_ms=rng.choice((since_ms, rng.randint(since_ms, now_ms - 1), since_ms - 3_600_000)),
            owner=rng.choice(_OWNERS),
            kind=("run", "manual")[self.made % 2] if source == "gua" else "job",
            job_name=rng.choice(("train", None)),
            slurm_job_id=str(rng.randint(1, 3)) if source == "slurm" else None,
            pod_uid=f"pod-{rng.randint(1, 2)}" if source == "kubernetes" else None,
            # By their number, so that all the rest is as without them.
            workload_kind=("training", None, None, "serving", None)[self.made % 5],
            workload_model=(None, None, "llama", "qwen")[self.made % 4],
        )


def allocated_card(
    allocations: AllocationMatcher, card: CardReading, look: AllocationLook, *, ts_ms: int
) -> CardReading:
    """Return the card with its allocations in the tick that ends at ``ts_ms``, as an agent makes it."""
    allocated = replace(card, allocation=None, unallocated_gpu_time_ms=None, allocations=())
    allocations.allocate(allocated, look, ts_ms=ts_ms)
    return allocated


def allocated(ticks: Iterable[Tick], *, seed: int, without_source: int = 0) -> Iterator[Tick]:
    """Yield the ticks with their cards' allocations, as an agent makes them; the first ``without_source`` without."""
    scheduler = _Scheduler(Random(f"allocations {seed}"))  # noqa: S311 - a simulation, no secret
    allocations = AllocationMatcher()
    before_ms: int | None = None
    waits = Random(f"waits {seed}")  # noqa: S311 - as above
    for number, tick in enumerate(ticks):
        if number < without_source:
            yield tick
            continue
        since_ms = max(before_ms or 0, tick.ts_ms - max(card.duration_ms for card in tick.cards))
        look = scheduler.look(since_ms, tick.ts_ms, [card.uuid for card in tick.cards])
        before_ms = tick.ts_ms
        longest_ms = max(card.duration_ms for card in tick.cards)
        yield replace(
            tick,
            cards=tuple(allocated_card(allocations, card, look, ts_ms=tick.ts_ms) for card in tick.cards),
            allocation_sources=tuple(
                AllocationSourceReading(
                    source=one.source,
                    duration_ms=longest_ms,
                    reason=one.reason,
                    **(_waits(waits, longest_ms) if one.source == "gua" and one.reason is None else {}),
                )
                for one in look.sources
            ),
        )


def _waits(rng: Random, tick_ms: int) -> dict[str, int]:
    """Return who waits in a tick: mostly none, else some for the whole tick or a part of it."""
    if rng.random() < 0.6:
        return {"waiting": 0, "wait_ms": 0, "waited_ms": 0}
    waiting, waited_ms = rng.randint(0, 3), rng.choice((tick_ms, rng.randint(1, tick_ms)))
    return {"waiting": waiting, "wait_ms": waited_ms * max(waiting, 1), "waited_ms": waited_ms}
