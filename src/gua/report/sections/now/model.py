"""What to do now: who holds a card and does nothing, and which cards nothing holds, as of the window's end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from gua.core.words import Use
from gua.report.costs import OneCost
from gua.report.kit.fields import Hours, Ratio, Seconds, Timestamp, Unit
from gua.report.states import MS_PER_HOUR

BYTES_PER_GB: Final = 10**9
SILENT: Final = "silent"
SILENT_AFTER: Final = 3
"""A card whose newest tick is older than so many intervals is silent, as in gua.current_cards."""


def gigabyte_hours(byte_ms: float) -> float:
    """Return bytes times milliseconds as GB-hours, of 10^9 bytes."""
    return byte_ms / BYTES_PER_GB / MS_PER_HOUR


_GB_HOURS: Final = Unit(
    json=lambda byte_ms: round(gigabyte_hours(byte_ms), 6), cell=gigabyte_hours, name="wasted_gigabyte_hours"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """A process that is idle on a card at the card's newest tick; times in ms, Unix ms for moments.

    ``pid`` is ``None`` where the card is idle-held and no listed process owns the memory. ``idle_ms`` is the idle
    time of the current streak (gaps and unknown ticks in it do not count); ``is_lower_bound``: nothing tells what it
    did just before, so it may be longer. ``active_24h_ms``: its active ticks in the last 24 h before ``as_of_ms``,
    ``None`` where its utilization was known at no tick of them, or the window begins later than they and the process.
    ``wasted_gpu_ms``: GPU time attributed to it in the window while the card was idle-held (without a ``pid``: of the
    card, in the current streak); ``wasted_byte_ms``: its memory times that time, ``None`` where its memory is known at
    no tick of it; ``wasted_cost``: what the GPU time cost, ``None`` without prices, and of memory without a ``pid``
    where a price changed meanwhile. ``is_alone``: no other counted process is listed on the card.
    """

    host: str
    gpu: str
    index: int | None
    card_name: str | None
    card_state: str
    as_of_ms: Timestamp[int]
    owner: str | None = None
    program: str | None = None
    pid: int | None = None
    created_ms: Timestamp[int | None] = None
    memory_bytes: int | None = None
    idle_since_ms: Timestamp[int]
    idle_ms: Seconds[int]
    is_lower_bound: bool
    is_alone: bool
    active_24h_ms: Seconds[int | None] = None
    wasted_gpu_ms: Hours[float]
    wasted_byte_ms: Annotated[float | None, _GB_HOURS] = None
    wasted_cost: OneCost = None
    container_id: str | None = None
    pod_uid: str | None = None
    slurm_job_id: str | None = None
    systemd_unit: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherHolder:
    """A process on a card at the card's newest tick that is active, or of which that is not known.

    ``since_ms``: when it was first seen on the card in the window (Unix ms). Its idle time is not known.
    """

    host: str
    gpu: str
    index: int | None
    card_name: str | None
    card_state: str
    as_of_ms: Timestamp[int]
    owner: str | None
    program: str | None
    pid: int
    memory_bytes: int | None
    since_ms: Timestamp[int]
    idle_ms: ClassVar[None] = None
    is_lower_bound: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True, slots=True)
class FreeCard:
    """A card that nothing holds at its newest tick, and that is promised to nobody, as far as anybody looked.

    ``free_since_ms`` is since when nothing holds it, ``free_ms`` how much of that was observed. ``allocation`` is
    ``unallocated``, or of a card of which it is not known whether it is promised ``unknown``; ``None`` where allocation
    is not looked at.

    ``free_ratio_at_this_hour``: the part of the observed time in this hour of the day, in the window, in which the
    card was truly-idle, 0 to 1; ``None`` if it was never observed then.
    """

    host: str
    gpu: str
    index: int | None
    card_name: str | None
    as_of_ms: Timestamp[int]
    free_since_ms: Timestamp[int]
    free_ms: Seconds[int]
    is_lower_bound: bool
    free_ratio_at_this_hour: Ratio[float | None]
    allocation: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PromisedCard:
    """An allocation of a card at the card's newest tick: whose it is, by which source, and what became of it.

    ``promised_since_ms`` and ``promised_until_ms`` are what the source says (Unix ms). Its ``use`` is what it is since
    ``use_since_ms``, ``in_use_ms`` of which were observed; ``is_lower_bound``: nobody saw that begin.
    """

    host: str
    gpu: str
    index: int | None
    card_name: str | None
    card_state: str
    as_of_ms: Timestamp[int]
    source: str
    allocation_id: str
    owner: str | None
    allocation_kind: str | None
    job_name: str | None
    promised_since_ms: Timestamp[int | None]
    promised_until_ms: Timestamp[int | None]
    use: str
    use_since_ms: Timestamp[int]
    in_use_ms: Seconds[int]
    is_lower_bound: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class CardNow:
    """A card's state by its newest tick, or that it is :data:`SILENT`.

    Of an idle-held or truly-idle one since when, and how much of that was observed; ``is_lower_bound``: nobody saw it
    begin.
    """

    host: str
    gpu: str
    index: int | None
    state: str
    since_ms: Timestamp[int | None] = None
    in_state_ms: Seconds[int | None] = None
    is_lower_bound: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Now:
    """As of ``as_of_ms``, the window's end: holders that are idle, worst first, free cards, and the other holders.

    Worst first: by how long it is idle, then by memory. ``cards``: how many GPUs that are not partitioned and MIG
    instances are in each state by their newest tick, and how many are :data:`SILENT`, without a tick within three
    intervals of it: what they do is not known, and none of them is listed. ``maybe_promised`` are cards that nothing
    holds of which it is not known whether they are promised; ``allocations`` the promises, by card.
    """

    as_of_ms: Timestamp[int]
    cards: Mapping[str, int]
    holders: tuple[Holder, ...]
    free: tuple[FreeCard, ...]
    others: tuple[OtherHolder, ...] = ()
    by_card: tuple[CardNow, ...] = ()
    maybe_promised: tuple[FreeCard, ...] = ()
    allocations: tuple[PromisedCard, ...] = ()

    @property
    def empty(self) -> tuple[PromisedCard, ...]:
        """Return the allocations of which nobody is there, the longest first."""
        found = (one for one in self.allocations if one.use == Use.EMPTY)
        return tuple(sorted(found, key=lambda one: (-one.in_use_ms, one.host, one.index or 0, one.gpu)))
