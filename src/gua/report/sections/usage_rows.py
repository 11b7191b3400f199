"""Usage: GPU time of owners and their programs, and of containers, pods, jobs, kinds of work, hosts or models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, NamedTuple

from gua.core.parameters import PRICED, READ
from gua.core.view import Count, Moment, View
from gua.report.costs import CostByState
from gua.report.kit.fields import HOURS, SECONDS, ByState, FirstSeen, Hours, LastSeen, Ratio
from gua.report.prices import CostsRow, PricedState, PricedTime, PricedUs, Prices, by_price_and_state, of_states
from gua.report.states import ACTIVE, IDLE_HELD, STATES, TRULY_IDLE, UNKNOWN, StateTime

LongestIdle = Annotated[int | None, replace(SECONDS, column="longest_idle_hours", cell=HOURS.cell)]
ProcessHours = Annotated[float, HOURS.named("process_hours")]


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnerUsage:
    """An owner's program, or (kind ``unlisted``) the time in which no process was listed on a card that was not idle.

    ``gpu_ms`` is the part of the cards' GPU time attributed to it, ``process_ms`` how long its processes
    were on cards. ``states`` are those of the cards, ``costs`` what the part of it
    cost. The others, ``None`` where streaks were not asked for, are as of a
    :class:`UsageRow`.
    """

    kind: str
    owner: str | None
    program: str | None
    gpu_ms: Hours[float]
    process_ms: ProcessHours
    longest_idle_ms: LongestIdle = None
    sessions: int | None = None
    first_ms: FirstSeen[int | None] = None
    last_ms: LastSeen[int | None] = None
    states: ByState
    costs: CostByState = None


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageRow:
    """One owner (program, container, …) of processes; times in ms, Unix ms for moments.

    ``kind`` is ``listed``, or ``unlisted`` for time in which no listed process was on a card that was not truly-idle:
    one row, by host and model one of each. ``name`` is ``None`` where it is not known, or where there is none. The
    split GPU times are attributed (docs/rules.md) and add up, over all rows, to those of cards that were active,
    idle-held or unknown; ``share`` is the part of that sum, 0 to 1. ``process_ms``: how long its processes were on
    those cards, each for itself. ``longest_idle_ms``: longest idle streak of any process that had the name when it was
    last seen, ``None`` where no such process was ever known to be active or idle. A session is one process, however
    many cards it was on; ``first_ms`` and ``last_ms`` are when any was first and last seen on a card in the window. Of
    hours whose processes were not kept apart there are no sessions (``None``).
    """

    kind: str
    name: str | None
    gpu_ms: Hours[float]
    share: Ratio[float | None]
    process_ms: ProcessHours
    longest_idle_ms: LongestIdle = None
    sessions: int | None = None
    first_ms: FirstSeen[int | None] = None
    last_ms: LastSeen[int | None] = None
    states: ByState
    costs: CostByState = None


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageBy:
    """All rows by one key of ``USAGE_BY``, the largest first."""

    by: str
    rows: tuple[UsageRow, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Owners with their programs, the largest first, and what else was asked for."""

    owners: tuple[OwnerUsage, ...]
    usage_by: tuple[UsageBy, ...] = ()


OWNER_AND_PROGRAM = "identity"
_HELD = (ACTIVE, IDLE_HELD, UNKNOWN)
LEAST_US: Final = 1000
"""What is left is whole milliseconds of ticks; less comes from rounding the parts of ticks that the window cuts."""


class Owner(NamedTuple):
    """Who a process belongs to, and what it is."""

    owner: str | None
    program: str | None
    container_id: str | None
    pod_uid: str | None
    slurm_job_id: str | None
    systemd_unit: str | None


class CardProcess(NamedTuple):
    """A process of a card's newest tick with processes; moments in Unix ms, ``created_ms`` is 0 where it is unknown."""

    host: str
    gpu: str
    pid: Count
    created_ms: int
    owner: Owner
    last_ms: Moment
    is_idle: bool
    memory_bytes: Count | None
    idle_since_ms: Moment | None
    idle_ms: Count | None
    idle_first_span_ms: Count | None
    known_before_ms: Count | None
    first_ms: Moment
    active_24h_ms: Count | None
    idle_held_us: Count
    idle_held_kib_ms: Count
    idle_held_known_ms: Count
    idle_held_priced: tuple[PricedTime, ...]


class OwnerSpanRow(NamedTuple):
    """An owner's program, or a party: GPU time in us by the card's state, and its processes that are there now."""

    name: str | None
    program: str | None
    active_us: Count
    idle_held_us: Count
    unknown_us: Count
    process_ms: Count
    sessions: Count
    first_ms: Moment | None
    last_ms: Moment | None
    longest_idle_ms: Count | None
    priced: tuple[PricedState, ...]

    @property
    def gpu_us(self) -> tuple[int, int, int]:
        """Return the GPU time on cards that were active, idle-held and unknown."""
        return (self.active_us, self.idle_held_us, self.unknown_us)


USAGE_VIEW: Final = View("usage", OwnerSpanRow, (*READ, "by", *PRICED))
HOLDERS: Final = View("holders", CardProcess, (*READ, *PRICED))


@dataclass(frozen=True, kw_only=True)
class Whole:
    """What all rows together must come to: the GPU time of cards by state, and of it the priced time by price [us]."""

    gpu_us: Mapping[str, int]
    prices: Prices
    priced: PricedUs

    @classmethod
    def of(cls, every: Iterable[Mapping[str, StateTime]], prices: Prices, costs: Iterable[CostsRow]) -> Whole:
        """Return the time of cards, each by state, of which ``costs`` are the rows."""
        times = list(every)
        gpu_us = {state: sum(round(time[state].gpu_ms * 1000) for time in times) for state in STATES}
        return cls(gpu_us=gpu_us, prices=prices, priced=by_price_and_state(costs))


def owners_of(rows: Sequence[OwnerSpanRow], whole: Whole) -> tuple[OwnerUsage, ...]:
    """Return owners and programs, the largest first; with the row of kind ``unlisted`` they sum to the headline."""
    found = [
        OwnerUsage(owner=row.name, program=row.program, **_listed(row, whole.prices))
        for row in rows
        if sum(row.gpu_us) > 0
    ]
    if rest := _unlisted(rows, whole):
        found.append(OwnerUsage(owner=None, program=None, **rest))
    return tuple(sorted(found, key=lambda one: (-one.gpu_ms, one.kind, one.owner or "", one.program or "")))


def usage_of(
    by: str, rows: Sequence[OwnerSpanRow], whole: Whole, groups: Mapping[str | None, Whole] | None = None
) -> UsageBy:
    """Return the rows by one key, the largest first, with those of kind ``unlisted`` where there is such time.

    ``groups``: what the rows of each name together must come to, where the key is one of cards.
    """
    told = [(row.name, _listed(row, whole.prices)) for row in rows if sum(row.gpu_us)]
    for name, of_name in ({None: whole} if groups is None else groups).items():
        listed = rows if groups is None else [row for row in rows if row.name == name]
        if rest := _unlisted(listed, of_name):
            told.append((name, rest))
    total = sum(whole.gpu_us[state] for state in _HELD) / 1000
    found = (UsageRow(name=name, share=one["gpu_ms"] / total if total else None, **one) for name, one in told)
    return UsageBy(by=by, rows=tuple(sorted(found, key=lambda one: (-one.gpu_ms, one.kind, one.name or ""))))


def _listed(row: OwnerSpanRow, prices: Prices) -> dict[str, Any]:
    """Return a row's fields of :class:`OwnerUsage` and :class:`UsageRow`."""
    return {
        "kind": "listed",
        **_times(row.gpu_us, of_states(row.priced), prices),
        "process_ms": row.process_ms,
        "longest_idle_ms": row.longest_idle_ms,
        "sessions": row.sessions or None,
        "first_ms": row.first_ms,
        "last_ms": row.last_ms,
    }


def _unlisted(rows: Sequence[OwnerSpanRow], whole: Whole) -> dict[str, Any] | None:
    """Return the same of what is left; ``None`` where processes were given all there was, or more."""
    listed = [sum(us) for us in zip((0, 0, 0), *(row.gpu_us for row in rows), strict=True)]
    rests = [whole.gpu_us[state] - us for state, us in zip(_HELD, listed, strict=True)]
    rests = [rest if rest >= LEAST_US else 0 for rest in rests]
    if not sum(rests):
        return None
    priced = unlisted_priced(whole.priced, (of_states(row.priced) for row in rows))
    return {"kind": "unlisted", **_times(rests, priced, whole.prices), "process_ms": sum(rests) / 1000}


def _times(us: Sequence[int], priced: PricedUs, prices: Prices) -> dict[str, Any]:
    """Return GPU time [us] on active, idle-held and unknown cards as fields: all of it, by state, and its cost."""
    by_state = dict(zip(_HELD, us, strict=True))
    return {
        "gpu_ms": sum(us) / 1000,
        "states": {state: StateTime(gpu_ms=by_state.get(state, 0) / 1000) for state in STATES},
        "costs": prices.costs(by_state, priced),
    }


def unlisted_priced(whole: PricedUs, listed: Iterable[PricedUs]) -> PricedUs:
    """Return what is left of the priced time of cards that were not truly-idle."""
    rest = Counter({key: us for key, us in whole.items() if key[1] != TRULY_IDLE})
    for one in listed:
        rest.subtract(one)
    return +rest
