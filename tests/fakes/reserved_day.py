"""A day of six people on four cards without a scheduler: their requests, who is on which card, and its ticks.

The ticks are made by the real desk, sampler and rules. :func:`uses` and :data:`WAITS` say the same of the script alone.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from fakes.clock import FakeClock
from gua.agent.sampler import Sampler
from gua.app.reservations import WithReservations
from gua.core.ports import RawCard, RawProcess
from gua.core.tick import CardReading, Origin, ProcessReading, ReadError, Tick
from gua.core.words import ProcessList, Source
from gua.reservations.desk import Desk
from gua.reservations.model import Candidate, CardRequest, Granted, Kind, Surroundings, Wish

GIB: Final = 2**30
START_MS: Final = 1_774_396_800_000  # 2026-03-25T00:00:00Z
TICK_MS: Final = 300_000
DAY_MS: Final = 86_400_000
HOST: Final = "shared-1"
PEOPLE: Final = ("ana", "bo", "chen", "dee", "eva", "fay")
GPUS: Final = tuple(f"GPU-{number}" for number in range(4))


def at(clock: str) -> int:
    """Return a time of the day, as in 09:30 or 09:30:30, as Unix ms."""
    hours, minutes, *seconds = map(int, clock.split(":"))
    return START_MS + (hours * 3600 + minutes * 60 + sum(seconds)) * 1000


@dataclass(frozen=True)
class Presence:
    """Somebody's process on a card: from one time to another, at one utilization."""

    gpu: int
    owner: str
    since: str
    until: str
    busy: float


THERE: Final = (
    Presence(0, "ana", "08:05", "11:00", 0.8),
    Presence(0, "ana", "11:00", "12:00", 0.0),
    Presence(0, "fay", "12:05", "13:30", 0.9),
    Presence(0, "dee", "14:05", "16:00", 0.5),
    Presence(1, "bo", "10:00", "13:00", 0.7),
    Presence(2, "dee", "11:00", "12:00", 0.6),
    Presence(2, "chen", "12:00", "14:00", 0.4),
    Presence(2, "dee", "13:00", "14:00", 0.0),
    Presence(3, "eva", "08:30", "10:30", 0.3),
    Presence(3, "eva", "10:30", "11:00", 0.0),
    Presence(3, "fay", "12:05", "13:30", 0.9),
)
UNREADABLE: Final = (3, "18:00", "18:10")
"""The utilization and the processes of this card cannot be read meanwhile."""
# Who had which card, as the rules of the queue have it: fay waits for two, dee behind her for one.
HAD: Final = (
    (0, "ana", "08:00:20", "12:00"),
    (1, "bo", "09:00", "17:00"),
    (2, "chen", "09:30:30", "15:30:30"),
    (0, "fay", "12:00", "14:00"),
    (3, "fay", "12:00", "14:00"),
    (0, "dee", "14:00", "16:00"),
)
WAITS: Final = {"most": 2, "since": "11:30", "until": "14:00", "wait_ms": (30 + 135) * 60_000}
COUNTS: Final = {"ana": (1, 0), "bo": (0, 1), "chen": (0, 1), "fay": (1, 0), "dee": (1, 0)}
"""How many runs, and how many reservations by hand."""


def there(gpu: int, moment: int) -> list[Presence]:
    """Return who is on a card in the tick that ends at a moment."""
    return [one for one in THERE if one.gpu == gpu and at(one.since) < moment <= at(one.until)]


def uses(since_ms: int = START_MS, until_ms: int = START_MS + DAY_MS) -> Iterator[tuple[str | None, str, int]]:
    """Yield of each card tick its owner, its use, and how many ms; nothing before the first request."""
    for end in range(START_MS + TICK_MS, START_MS + DAY_MS + 1, TICK_MS):
        if not since_ms < end <= until_ms or end < at(HAD[0][2]):
            continue
        for gpu in range(len(GPUS)):
            on_it = there(gpu, end)
            is_unknown = gpu == UNREADABLE[0] and at(UNREADABLE[1]) < end <= at(UNREADABLE[2])
            is_active = any(one.busy >= 0.1 for one in on_it)
            left = TICK_MS
            for had, owner, since, until in HAD:
                covered = min(at(until), end) - max(at(since), end - TICK_MS)
                if had != gpu or covered <= 0:
                    continue
                left -= covered
                seen = on_it if at(until) >= end else there(gpu, end - TICK_MS)
                if is_unknown:
                    use = "unknown"
                elif any(one.owner == owner for one in seen):
                    use = "used" if is_active else "held"
                elif seen:
                    use = "used-by-others"
                else:
                    use = "unknown" if on_it else "empty"
                yield owner, use, covered
            if left:
                yield None, "unknown" if is_unknown else "unallocated-use" if on_it else "free", left


def summed(
    since_ms: int = START_MS, until_ms: int = START_MS + DAY_MS
) -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """Return the ms of each use, and of each owner's uses."""
    every: Counter[str] = Counter()
    owners: Counter[tuple[str, str]] = Counter()
    for owner, use, ms in uses(since_ms, until_ms):
        every[use] += ms
        if owner is not None:
            owners[owner, use] += ms
    return every, owners


@dataclass
class _Host:
    """The cards as the driver reports them."""

    clock: FakeClock

    def read(self) -> tuple[Sequence[RawCard], Sequence[ReadError]]:
        return [self._card(number) for number in range(len(GPUS))], ()

    def drain(self) -> None:
        """Keep nothing."""

    def close(self) -> None:
        """Hold nothing."""

    def identify(self, process: RawProcess) -> ProcessReading:
        owner = PEOPLE[process.pid % 100]
        return ProcessReading(
            pid=process.pid,
            created_ms=START_MS,
            owner=owner,
            uid=1000 + process.pid % 100,
            comm="python",
            memory_bytes=process.memory_bytes,
            utilization=process.utilization,
        )

    def _card(self, number: int) -> RawCard:
        on_it = there(number, self.clock.wall_ms())
        unreadable = number == UNREADABLE[0] and at(UNREADABLE[1]) < self.clock.wall_ms() <= at(UNREADABLE[2])
        return RawCard(
            reading=CardReading(
                uuid=GPUS[number],
                duration_ms=1,
                gpu_time_ms=0,
                index=number,
                name="NVIDIA H100 80GB HBM3",
                model="NVIDIA H100 80GB HBM3",
                process_list=ProcessList.FAILED if unreadable else ProcessList.KNOWN,
                utilization=None if unreadable else max((one.busy for one in on_it), default=0.0),
                memory_used_bytes=None if unreadable else 10 * GIB * len(on_it),
                memory_limit_bytes=80 * GIB,
                memory_reserved_bytes=GIB // 2,
            ),
            gpu_fraction=(1, 1),
            processes=tuple(
                RawProcess(
                    pid=1000 * (number + 1) + PEOPLE.index(one.owner),
                    lists=frozenset({"compute"}),
                    memory_bytes=10 * GIB,
                    utilization=one.busy,
                )
                for one in on_it
            ),
        )

    def candidates(self) -> list[Candidate]:
        """Return the cards as they are the moment after: who stops then is gone."""
        now = self.clock.wall_ms() + 1
        return [
            Candidate(
                uuid=gpu,
                index=number,
                model="H100",
                refusal=f"is held by {on_it[0].owner}" if (on_it := there(number, now)) else None,
                uids=frozenset(1000 + PEOPLE.index(one.owner) for one in on_it),
            )
            for number, gpu in enumerate(GPUS)
        ]


@dataclass
class _People:
    """Sends requests to the desk and releases cards, as the script has it."""

    desk: Desk
    clock: FakeClock
    waiting: dict[str, CardRequest] = field(default_factory=dict)
    granted: dict[str, Granted] = field(default_factory=dict)

    def ask(self, owner: str, wish: Wish, kind: Kind, for_ms: int | None = None) -> None:
        uid = 1000 + PEOPLE.index(owner)
        self.waiting[owner] = CardRequest(uid=uid, owner=owner, kind=kind, wish=wish, for_ms=for_ms)
        self.desk.enter(self.waiting[owner])

    def give_back(self, owner: str) -> None:
        granted = self.granted.pop(owner)
        if granted.lifeline is None:
            assert self.desk.end([granted.reservation.id], by=owner)
        else:
            os.close(granted.lifeline)
            self.until_gone(owner)

    def until_gone(self, owner: str) -> None:
        deadline = time.monotonic() + 60
        while any(one.owner == owner for one in self.desk.reservations()):
            assert time.monotonic() < deadline, owner
            time.sleep(0.02)

    def serve(self) -> None:
        for owner, request in [*self.waiting.items()]:
            answer = self.desk.attempt(request.place)
            if isinstance(answer, Granted):
                self.granted[owner] = answer
                del self.waiting[owner]


def ticks(folder: Path) -> Iterator[Tick]:
    """Yield the ticks of the day; ``folder`` keeps the truth of the desk."""
    clock = FakeClock(wall_ms=START_MS)
    host = _Host(clock)
    surroundings = Surroundings(
        probe=host.candidates,
        start_ticks=lambda _: None,
        wall_ms=clock.wall_ms,
        boot_seconds=lambda: clock.monotonic_ms() / 1000,
    )
    desk = Desk(folder, surroundings)
    desk.start()
    people = _People(desk, clock)
    hour = 3_600_000
    script = {
        at("08:00:20"): lambda: people.ask("ana", Wish(count=1), Kind.RUN),
        at("09:00"): lambda: people.ask("bo", Wish(cards=(GPUS[1],)), Kind.MANUAL, 8 * hour),
        at("09:30:30"): lambda: people.ask("chen", Wish(cards=(GPUS[2],)), Kind.MANUAL, 10 * hour),
        at("11:30"): lambda: people.ask("fay", Wish(count=2), Kind.RUN),
        at("11:45"): lambda: people.ask("dee", Wish(count=1), Kind.RUN),
        at("12:00"): lambda: people.give_back("ana"),
        at("14:00"): lambda: people.give_back("fay"),
        at("15:30:30"): lambda: people.give_back("chen"),
        at("16:00"): lambda: people.give_back("dee"),
        at("17:00"): lambda: people.until_gone("bo"),  # by the desk's own timer
    }
    sampler = Sampler(
        cards=host,
        processes=host,
        clock=clock,
        origin=Origin(host=HOST, source=Source.AGENT, interval_ms=TICK_MS),
        initial_pid_namespace=True,
        allocations=WithReservations(None, desk),
    )
    mark = None
    try:
        for moment in sorted({*script, *range(START_MS + TICK_MS, START_MS + DAY_MS + 1, TICK_MS)}):
            clock.advance(moment - clock.wall_ms())
            if moment in script:
                script[moment]()
                people.serve()
            if (moment - START_MS) % TICK_MS == 0:
                sample = sampler.sample(mark)
                assert sample.tick is not None
                mark = sample.mark
                yield replace(sample.tick, agent=None)
    finally:
        desk.close()
