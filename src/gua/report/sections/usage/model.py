"""Usage: GPU time of owners and their programs, and of containers, pods, jobs, kinds of work, hosts or models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from gua.report.costs import CostByState
from gua.report.kit.fields import HOURS, SECONDS, ByState, FirstSeen, Hours, LastSeen, Ratio

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
    longest_idle_ms: LongestIdle
    sessions: int | None
    first_ms: FirstSeen[int | None]
    last_ms: LastSeen[int | None]
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
