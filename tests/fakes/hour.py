"""An hour of an agent on a host on which much changes: the real reader, sampler and encoder on a driver that behaves.

Two whole cards and one that is partitioned for a while; processes come, go and are on two cards; jobs begin and end
within ticks; samples stop, power is sampled in part, a card is lost, a source fails, the clock is set. Always the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from fakes.clock import FakeClock
from fakes.nvml import GPU_IS_LOST, MIB, NOT_SUPPORTED, Card, FakeDriver, Process, Use
from gua.agent.sampler import QueueHealth, Sampler
from gua.core.allocation import Allocation, AllocationLook, CardKey, SourceHealth
from gua.core.ports import Mark
from gua.core.tick import Origin, ReadError
from gua.core.words import Source
from gua.identity.process import Owners, ProcessIdentity
from gua.nvml.reader import NvmlReader
from gua.otlp.encode import encode
from gua.procfs.reader import ProcessRecord, Stat

TICKS: Final = 120
INTERVAL_MS: Final = 30_000
_DRAIN_MS: Final = 5_000
_SAMPLE_MS: Final = 200
_FIRST: Final = 300


class _Table:
    """A host that identifies processes by their pids; some have no cgroup, every seventh changes its name."""

    ticks_per_second = 100

    def __init__(self) -> None:
        self.gone: set[int] = set()
        self.generation = 0

    def stat(self, pid: int) -> Stat | None:
        if pid in self.gone:
            return None
        name = "Xorg" if pid % 11 == 0 else f"job-{pid}" + (f"-{self.generation}" if pid % 7 == 0 else "")
        return Stat(name, 100 * pid)

    def process(self, pid: int) -> ProcessRecord | None:
        stat = self.stat(pid)
        if stat is None:
            return None
        inside = (f"/slurm/uid_1000/job_{pid % 5}/step_0", f"/system.slice/docker-{pid:064x}.scope", "/user.slice")
        return ProcessRecord(
            pid=pid, comm=stat.comm, start_ticks=stat.start_ticks, uid=1000 + pid % 4, cgroup=f"0::{inside[pid % 3]}\n"
        )


class _Sources:
    """Slurm's jobs as they are at the moment; for some ticks it cannot be read."""

    def __init__(self) -> None:
        self.jobs: tuple[Allocation, ...] = ()
        self.reason: str | None = None

    def look(self, since_ms: int, now_ms: int, cards: Sequence[CardKey]) -> AllocationLook:
        del now_ms, cards
        here = tuple(job for job in self.jobs if job.until_ms is None or job.until_ms > since_ms)
        return AllocationLook(allocations=here, sources=(SourceHealth(source="slurm", reason=self.reason),))


class _Host:
    def __init__(self) -> None:
        self.rng = Random("an hour")  # noqa: S311 - a simulation, no secret
        self.clock = FakeClock(wall_ms=1_774_413_000_000)
        self.cards = [Card(f"GPU-{letter}", gpm_supported=True) for letter in "abc"]
        self.driver = FakeDriver(*self.cards)
        self.table, self.sources = _Table(), _Sources()
        self.reader = NvmlReader(self.clock, self.driver)
        self.pid = _FIRST
        self.sampled_ms = self.clock.wall

    def go_on(self, milliseconds: int, number: int) -> None:
        """Let time go by, with what the rings hold of it."""
        until_ms = self.clock.wall + milliseconds
        while self.sampled_ms + _SAMPLE_MS <= until_ms:
            self.sampled_ms += _SAMPLE_MS
            for place, card in enumerate(self.cards):
                percent = self.rng.choice(((0, 3, 9), (0, 100, 55, 10), (100,))[(number // 7 + place) % 3])
                if not (place == 1 and number % 13 == 5):  # samples that stop
                    card.ring.append((self.sampled_ms * 1000, percent))
                if place != 2 and number % 5:
                    card.power_ring.append((self.sampled_ms * 1000, 70_000 + 5_000 * percent))
                card.gpu = percent
        for card in self.cards:
            del card.ring[:-100], card.power_ring[: -12 if card is self.cards[1] else -60]  # 2.4 s, as of an H100
            card.uses = [Use(one.pid, self.clock.wall * 1000 + 1, one.pid % 80) for one in card.compute[:3]]
            card.energy_mj += milliseconds * (71 + card.gpu)
            card.power_mw = 70_000 + 5_000 * card.gpu
        self.clock.advance(milliseconds)

    def change(self, number: int) -> None:
        """Let happen what happens in tick ``number``."""
        first, second, third = self.cards
        for card in self.cards:
            if self.rng.random() < 0.3:
                self.pid += 1
                card.compute = [*card.compute, Process(self.pid, (100 + self.pid) * MIB)][-5:]
            if card.compute and self.rng.random() < 0.15:
                card.compute = card.compute[1:]
            card.used = 600 * MIB + sum(one.usedGpuMemory or 0 for one in card.compute)
        if number == 20:
            first.graphics = [Process(308, 20 * MIB), *first.compute[:1]]
            self.table.generation += 1
        if number == 25 and first.compute:
            second.compute = [*second.compute, first.compute[0]]
            self.table.gone = {first.compute[0].pid}
        third.mig = 40 <= number < 60
        if number == 40:
            instance = Card("MIG-c-1", gpm_supported=True, slices=3, gpu_instance=5)
            instance.compute = [Process(self.pid + 1, 900 * MIB, 5)]
            third.instances = [instance]
        second.faults = {"nvmlDeviceGetUUID": GPU_IS_LOST} if number in {70, 71} else {}
        first.faults = {"nvmlDeviceGetPowerUsage": NOT_SUPPORTED} if number in {73, 74} else {}
        self.sources.reason = "no answer" if 80 <= number < 85 else None
        if number == 90:
            self.clock.wall += 3_600_000  # somebody set it, but not the other clock
            self.sampled_ms += 3_600_000
        if number == 100:
            self.clock.wall -= 1_200
            self.sampled_ms -= 1_200
        if number % 9 == 4:
            self._jobs(number)

    def _jobs(self, number: int) -> None:
        now_ms = self.clock.wall
        ended = [
            Allocation(**{**_fields(job), "until_ms": now_ms - 1_234}) if job.until_ms is None else job
            for job in self.sources.jobs[-2:]
        ]
        begun = Allocation(
            source="slurm",
            id=str(number),
            cards=frozenset({self.cards[number % 3].uuid, self.cards[(number + number // 9 % 2) % 3].uuid}),
            since_ms=now_ms + 5_678,
            uid=1000 + number % 4,
            owner=f"user{1000 + number % 4}",
            job_name="train",
            slurm_job_id=str(number % 5),
        )
        self.sources.jobs = (*(ended if number % 2 else self.sources.jobs[-3:]), begun)


def _fields(job: Allocation) -> dict[str, object]:
    return {name: getattr(job, name) for name in job.__dataclass_fields__}


def an_hour() -> Iterator[bytes]:
    """Yield the requests of an hour's ticks; a tick that could not be made has none."""
    host = _Host()
    sampler = Sampler(
        cards=host.reader,
        processes=ProcessIdentity(
            host.table,
            Owners(lambda uid: f"user{uid}"),
            boot_time_ms=1_774_000_000_000,
            monotonic=lambda: host.clock.monotonic / 1000,
        ),
        clock=host.clock,
        origin=Origin(host="gpu01", source=Source.AGENT, interval_ms=INTERVAL_MS, service_version="0"),
        initial_pid_namespace=True,
        besides=lambda: [ReadError(call="kubelet", code="403")] if host.table.generation else [],
        allocations=host.sources,
    )
    mark: Mark | None = None
    for number in range(TICKS):
        host.change(number)
        for _ in range(INTERVAL_MS // _DRAIN_MS - 1):
            host.go_on(_DRAIN_MS, number)
            host.reader.drain()
        host.go_on(_DRAIN_MS, number)
        health = QueueHealth(spool_ticks=number % 3, spool_bytes=4096, dropped_ticks=0)
        sample = sampler.sample(mark, lateness_ms=number % 4, health=health)
        if sample.tick is not None:
            mark = sample.mark
            yield encode(sample.tick)
    host.reader.close()
