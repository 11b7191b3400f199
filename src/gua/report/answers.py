"""The answers on a report's first screen: top idle holders, and idle seconds where they matter."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gua.core.words import Use
from gua.report.costs import Cost, added
from gua.report.costs import wasted as idle_held_cost
from gua.report.kit.fields import grouped
from gua.report.model import IdleSeconds, Report
from gua.report.sections.allocation import AllocatedHours
from gua.report.sections.now_rows import SILENT_AFTER, AllocatedCard, Holder, Now, OtherHolder
from gua.report.sections.usage import OwnerUsage, Usage
from gua.report.states import IDLE_HELD, MS_PER_HOUR

LEAST_IDLE_SHARE: Final = 0.05
"""Share of idle seconds in sampled active GPU time, 0 to 1: below it the answer is hidden."""
LEAST_IDLE_MS: Final = MS_PER_HOUR
"""Idle GPU time in active time [ms]: below it the answer is hidden."""


Holding = Holder | OtherHolder
"""A card that an owner holds at the card's newest tick; ``idle_ms`` is ``None`` where active or unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleOwner:
    """An owner (``None``: unknown) and its part of idle-held GPU time [ms].

    ``cost`` is the cost of that time, ``gpu_ms`` all GPU time attributed to the owner. ``holds`` are its cards now,
    longest idle first. ``last_ms`` is its last tick on a card (Unix ms). ``is_gone``: on no card at the window's end;
    ``None`` where current holders were not queried, or its last host is silent since.
    """

    owner: str | None
    wasted_gpu_ms: float
    cost: Cost | None
    gpu_ms: float
    holds: tuple[Holding, ...]
    last_ms: int | None
    is_gone: bool | None


@dataclass(frozen=True, kw_only=True, slots=True)
class EmptyOwner:
    """An owner (``None``: unknown) and its allocated GPU time without a process [ms].

    Where no processes are known, as in imports from Prometheus, that includes time in which its cards were idle-held.
    ``cost`` is the cost of that time, ``gpu_ms`` all its allocated time. ``holds``: its allocations that are so now,
    longest first.
    """

    owner: str | None
    wasted_gpu_ms: float
    cost: Cost | None
    gpu_ms: float
    holds: tuple[AllocatedCard, ...]


TopOwner = IdleOwner | EmptyOwner


@dataclass(frozen=True, kw_only=True, slots=True)
class Unowned:
    """Idle-held GPU time [ms] of memory without a listed process, its cost, and the cards held so now."""

    wasted_gpu_ms: float
    cost: Cost | None
    holds: tuple[Holding, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers:
    """The answers; ``owners`` are the top idle holders, by cost if all wasted time has a price in one currency.

    ``idle_seconds`` are those of active time; ``None`` where unknown or below the limits. ``uses`` are the uses of
    allocated time that count for its owners.
    """

    owners: tuple[TopOwner, ...]
    unowned: Unowned | None
    idle_seconds: IdleSeconds | None
    uses: tuple[Use, ...]


def answers(report: Report) -> Answers:
    """Return the answers of a report; those from sections ``usage`` and ``now`` are empty where it lacks them.

    Owners are those of section usage, over all their programs. Together with memory without a listed process they add
    up to the idle-held time of the headline. Owners of empty allocations are those of section allocation and add up to
    the empty time.
    """
    now, usage = report.get(Now), report.get(Usage)
    every = usage.owners if usage else ()
    owners = grouped((one for one in every if one.kind == "listed"), lambda one: one.owner)
    unlisted = [one for one in every if one.kind != "listed"]
    holding: tuple[Holding, ...] = (*now.holders, *now.others) if now else ()
    holds = grouped((one for one in holding if one.pid is not None), lambda one: one.owner)
    unowned = tuple(one for one in holding if one.pid is None)
    idle = report.headline.idle_seconds
    if idle is not None and (idle.idle_gpu_ms < LEAST_IDLE_MS or idle.idle_share < LEAST_IDLE_SHARE):
        idle = None
    allocated = report.get(AllocatedHours)
    # Without any listed process, time is held by an allocation only where it was the card's sole one.
    uses = (Use.EMPTY,) if owners or allocated is None else (Use.EMPTY, Use.HELD)
    allocated_ms = sum(allocated.uses[use] for use in uses[1:]) if allocated is not None else 0
    owners_and_allocations: list[TopOwner] = [
        *(_idle_owner(report, owner, rows, tuple(holds.get(owner, ()))) for owner, rows in owners.items()),
        *_empty_owners(report, uses),
    ]
    empty_cost = allocated.costs[Use.EMPTY] if allocated is not None and allocated.costs is not None else None
    total = added([idle_held_cost(report.headline.costs), empty_cost])
    rest_ms = max(sum(one.states[IDLE_HELD].gpu_ms for one in unlisted) - allocated_ms, 0)
    if allocated_ms and now:
        held = {(one.host, one.gpu) for one in now.allocations if one.use == Use.HELD}
        unowned = tuple(one for one in unowned if (one.host, one.gpu) not in held)
    return Answers(
        owners=tuple(sorted((one for one in owners_and_allocations if one.wasted_gpu_ms > 0), key=_most_first(total))),
        unowned=Unowned(wasted_gpu_ms=rest_ms, cost=_cost(unlisted), holds=unowned) if rest_ms > 0 or unowned else None,
        idle_seconds=idle,
        uses=uses,
    )


def _most_first(total: Cost | None) -> Callable[[TopOwner], tuple[float, float, str]]:
    """Return a sort key: cost where all time is priced in one currency, else GPU time; currencies are never summed."""
    is_priced = total is not None and len(total.amounts) == 1 and not total.unpriced_gpu_ms

    def order(one: TopOwner) -> tuple[float, float, str]:
        amount = sum(one.cost.amounts.values()) if is_priced and one.cost is not None else 0
        return (-amount, -one.wasted_gpu_ms, one.owner or "")

    return order


def _cost(rows: Iterable[OwnerUsage]) -> Cost | None:
    return added(idle_held_cost(one.costs) for one in rows)


def _empty_owners(report: Report, uses: Sequence[Use]) -> Iterable[EmptyOwner]:
    found, now = report.get(AllocatedHours), report.get(Now)
    current = [one for one in now.allocations if one.use in uses] if now else []
    current.sort(key=lambda one: -one.in_use_ms)
    for owner, rows in grouped(found.owners if found else (), lambda one: one.owner).items():
        yield EmptyOwner(
            owner=owner,
            wasted_gpu_ms=sum(one.uses[use] for one in rows for use in uses),
            cost=added(one.costs[use] for one in rows if one.costs is not None for use in uses),
            gpu_ms=sum(one.allocated_gpu_ms for one in rows),
            holds=tuple(one for one in current if one.owner == owner),
        )


def _idle_owner(report: Report, owner: str | None, rows: Iterable[OwnerUsage], holds: tuple[Holding, ...]) -> IdleOwner:
    every = list(rows)
    last_ms = max((one.last_ms for one in every if one.last_ms is not None), default=None)
    return IdleOwner(
        owner=owner,
        wasted_gpu_ms=sum(one.states[IDLE_HELD].gpu_ms for one in every),
        cost=_cost(every),
        gpu_ms=sum(one.gpu_ms for one in every),
        holds=holds,
        last_ms=last_ms,
        is_gone=False if holds else _is_gone(report, last_ms),
    )


def _is_gone(report: Report, last_ms: int | None) -> bool | None:
    """Return whether an owner that holds no card has no process on any card either; ``None`` where unknown."""
    now = report.get(Now)
    if now is None:
        return None
    if last_ms is None:  # the processes of those hours are not stored
        return None if report.silent else True
    near_ms = SILENT_AFTER * max((extent.interval_ms or 0 for extent in report.extents), default=0)
    if any(last_ms >= silent.since_ms - near_ms for silent in report.silent):
        return None
    return last_ms < now.as_of_ms - near_ms
