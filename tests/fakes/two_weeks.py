"""Two weeks of ten cards as plain data: which process is where, what it does, and which ticks arrive when.

It knows nothing of how gua decides. Ticks for a real store are made of it, and the truth is computed from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from fakes.attribution import attribute
from gua.core.tick import AllocationReading, AllocationSourceReading, CardReading, Origin, ProcessReading, Tick
from gua.core.words import AllocationStatus, ProcessList, Relation, Source

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
TICK_MS: Final = 5 * MINUTE_MS
BEGIN_MS: Final = 1_773_964_800_000  # 2026-03-20 00:00 UTC: Europe sets its clocks on the 29th
DAYS: Final = 14
END_MS: Final = BEGIN_MS + DAYS * DAY_MS
GIB: Final = 2**30
CARDS: Final = {"n1": 5, "n2": 5}
OWNERS: Final = ("ana", "bo", "chen", "svc-llm", "hanna", None)
Place = tuple[str, int]


@dataclass(frozen=True)
class Life:
    """A process on one card from ``since_ms`` to ``until_ms``; ``phases`` are what it does, each until a time."""

    place: Place
    pid: int
    created_ms: int
    owner: str | None
    job: str | None
    since_ms: int
    until_ms: int
    phases: tuple[tuple[int, str], ...]

    def doing(self, at_ms: int) -> str | None:
        """Return what it does: computes, idles or unknown; ``None`` if it is not there."""
        if not self.since_ms < at_ms <= self.until_ms:
            return None
        return next(doing for until_ms, doing in self.phases if at_ms <= until_ms)


@dataclass(frozen=True)
class Given:
    """A job's allocation of a card by a scheduler."""

    place: Place
    job: str
    owner: str
    since_ms: int
    until_ms: int


@dataclass(frozen=True)
class Reading:
    """One tick of a host: when it ends, and when it arrives at the store."""

    host: str
    ts_ms: int
    arrives_ms: int


@dataclass
class TwoWeeks:
    """Everything that happens, the same for the same seed; ``missing`` is the share of ticks that are missing alone."""

    seed: int
    days: int = DAYS
    missing: float = 0.02
    lives: list[Life] = field(default_factory=list)
    given: list[Given] = field(default_factory=list)
    lost: list[tuple[Place, int, int]] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = Random(f"two weeks {self.seed}")  # noqa: S311 - a simulation, no secret
        for lane, place in enumerate([("n1", 0), ("n1", 1), ("n1", 2), ("n1", 2), ("n2", 0), ("n2", 1)]):
            self._lane(lane, (place,))
        self._lane(10, (("n1", 3), ("n2", 2)), is_job=True)  # a process on each of two hosts
        self._lane(11, (("n1", 4), ("n1", 4)), is_job=True)  # two processes on one card
        self._lane(12, (("n2", 4),), is_job=True)  # the same job ids come again on another card
        self._allocations()
        for place in [("n1", 0), ("n1", 3), ("n2", 1), ("n2", 3)]:
            for _ in range(max(self.days // 3, 1)):
                since_ms = self._moment()
                self.lost.append((place, since_ms, since_ms + self._rng.choice((TICK_MS, HOUR_MS, 6 * HOUR_MS))))
        self.readings = sorted(self._readings(), key=lambda one: (one.arrives_ms, one.ts_ms, one.host))

    @property
    def end_ms(self) -> int:
        return BEGIN_MS + self.days * DAY_MS

    def _moment(self) -> int:
        return BEGIN_MS + self._rng.randrange(self.days * DAY_MS // TICK_MS) * TICK_MS

    def _hours(self, *hours: float) -> int:
        """Return one of some lengths, which vary by up to a half, as whole ticks [ms]."""
        length = self._rng.choice(hours) * self._rng.uniform(0.5, 1.5) * HOUR_MS
        return max(round(length / TICK_MS), 1) * TICK_MS

    def _phases(self, since_ms: int, until_ms: int) -> tuple[tuple[int, str], ...]:
        phases, at_ms = [], since_ms
        doing = self._rng.choice(("computes", "idles"))
        while at_ms < until_ms:
            at_ms += {
                "computes": self._hours(0.2, 1, 5),
                "idles": self._hours(0.5, 3, 12, 40, 60),
                "unknown": self._hours(0.1, 0.5, 3),
            }[doing]
            phases.append((min(at_ms, until_ms), doing))
            others = {"computes": ("idles",), "unknown": ("idles", "computes")}
            doing = self._rng.choice(others.get(doing, ("computes", "unknown", "computes")))
        return tuple(phases)

    def _lane(self, lane: int, places: Sequence[Place], *, is_job: bool = False) -> None:
        """Fill places with lives, one after the other; pids and job numbers are used again."""
        at_ms, number = BEGIN_MS + self._hours(1, 5), 0
        while at_ms < self.end_ms:
            until_ms = min(at_ms + self._hours(4, 20, 50, 90), self.end_ms)
            owner = self._rng.choice(OWNERS)
            job = str(100 * lane + number) if is_job else None
            for part, place in enumerate(places):
                pid = 1000 + 10 * lane + 5 * part + number % 2
                phases = self._phases(at_ms, until_ms)
                created_ms = at_ms - self._rng.randrange(1, 60_000)
                self.lives.append(Life(place, pid, created_ms, owner, job, at_ms, until_ms, phases))
            at_ms = until_ms + self._rng.choice((0, TICK_MS, 2 * HOUR_MS, 9 * HOUR_MS))
            number += 1

    def _allocations(self) -> None:
        """Give a card to jobs; their processes are there for a part of the time."""
        place, at_ms, number = ("n2", 3), BEGIN_MS + HOUR_MS, 0
        while at_ms < self.end_ms:
            until_ms = min(at_ms + self._hours(6, 20, 40), self.end_ms)
            job, owner = str(5000 + number), self._rng.choice(("ana", "bo", "svc-llm", "hanna"))
            self.given.append(Given(place, job, owner, at_ms, until_ms))
            began_ms = at_ms + self._rng.choice((0, 2 * HOUR_MS, 9 * HOUR_MS))
            ended_ms = min(began_ms + self._hours(1, 5), until_ms)
            if began_ms < ended_ms:
                phases = self._phases(began_ms, ended_ms)
                self.lives.append(Life(place, 3000 + number % 2, began_ms, owner, job, began_ms, ended_ms, phases))
            at_ms = until_ms + self._rng.choice((0, HOUR_MS))
            number += 1

    def _readings(self) -> Iterator[Reading]:
        """Yield the ticks of both hosts: some are missing, some come late."""
        holes = {"n1": [(2, 0.5, 3), (8, 5, 31)], "n2": [(4, 9, 4), (11, 1, 6)]}
        late = {"n1": [(6, 7, 5)], "n2": [(5, 10, 3), (10, 3, 20)]}
        for host in CARDS:
            for ts_ms in range(BEGIN_MS + TICK_MS, self.end_ms + 1, TICK_MS):
                if self._rng.random() < self.missing or any(self._is_in(ts_ms, *hole) for hole in holes[host]):
                    continue
                delays = [hours * HOUR_MS for day, hour, hours in late[host] if self._is_in(ts_ms, day, hour, hours)]
                yield Reading(host, ts_ms, ts_ms + (max(delays) if delays else 2_000))

    @staticmethod
    def _is_in(ts_ms: int, day: int, hour: float, hours: float) -> bool:
        since_ms = BEGIN_MS + day * DAY_MS + round(hour * HOUR_MS)
        return since_ms < ts_ms <= since_ms + hours * HOUR_MS

    def is_lost(self, place: Place, at_ms: int) -> bool:
        return any(where == place and since_ms < at_ms <= until_ms for where, since_ms, until_ms in self.lost)

    def on_card(self, place: Place, at_ms: int) -> list[tuple[Life, str]]:
        """Return which processes are on a card, and what they do."""
        return [(life, doing) for life in self._of(place) if (doing := life.doing(at_ms))]

    def given_at(self, place: Place, at_ms: int) -> Given | None:
        found = (one for one in self.given if one.place == place and one.since_ms < at_ms <= one.until_ms)
        return next(found, None)

    def _of(self, place: Place) -> list[Life]:
        if not hasattr(self, "_by_place"):
            self._by_place: dict[Place, list[Life]] = {}
            for life in self.lives:
                self._by_place.setdefault(life.place, []).append(life)
        return self._by_place.get(place, [])

    def tick(self, reading: Reading) -> Tick:
        """Return a reading as an agent's tick."""
        cards = tuple(self._card((reading.host, place), reading.ts_ms) for place in range(CARDS[reading.host]))
        has_source = reading.host == "n2"
        return Tick(
            ts_ms=reading.ts_ms,
            origin=Origin(host=reading.host, source=Source.AGENT, interval_ms=TICK_MS),
            cards=cards,
            allocation_sources=(AllocationSourceReading(source="slurm", duration_ms=TICK_MS),) if has_source else (),
        )

    def _card(self, place: Place, at_ms: int) -> CardReading:
        host, index = place
        is_lost = self.is_lost(place, at_ms)
        processes = [] if is_lost else self.on_card(place, at_ms)
        uses = {"computes": 0.8, "idles": 0.02, "unknown": None}
        is_blind = is_lost or any(doing == "unknown" for _, doing in processes)
        listed = tuple(
            ProcessReading(
                pid=life.pid,
                created_ms=life.created_ms,
                owner=life.owner,
                comm="python",
                memory_bytes=2 * GIB,
                utilization=uses[doing],
                slurm_job_id=life.job,
            )
            for life, doing in processes
        )
        return attribute(
            CardReading(
                uuid=f"GPU-{host}-{index}",
                duration_ms=TICK_MS,
                gpu_time_ms=TICK_MS,
                process_list=ProcessList.FAILED if is_lost else ProcessList.KNOWN,
                index=index,
                name="H100",
                utilization=None if is_blind else max((one.utilization or 0 for one in listed), default=0.0),
                memory_used_bytes=None if is_lost else 2 * GIB * len(listed),
                memory_limit_bytes=80 * GIB,
                memory_reserved_bytes=0,
                failed=is_lost,
                processes=listed,
                **self._allocation(place, at_ms, is_there=bool(listed), is_lost=is_lost),
            )
        )

    def _allocation(self, place: Place, at_ms: int, *, is_there: bool, is_lost: bool) -> dict[str, object]:
        if place[0] != "n2":
            return {}
        given = self.given_at(place, at_ms)
        if given is None:
            return {"allocation": AllocationStatus.UNALLOCATED, "unallocated_gpu_time_ms": TICK_MS}
        relation = Relation.UNKNOWN if is_lost else Relation.OWNER if is_there else Relation.NOBODY
        one = AllocationReading(
            source="slurm",
            id=given.job,
            relation=relation,
            duration_ms=TICK_MS,
            gpu_time_ms=TICK_MS,
            since_ms=given.since_ms,
            owner=given.owner,
            job_name="train",
        )
        return {"allocation": AllocationStatus.ALLOCATED, "unallocated_gpu_time_ms": 0, "allocations": (one,)}
