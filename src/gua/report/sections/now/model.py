"""What to do now: who holds a card and does nothing, and which cards nothing holds, as of the window's end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from gua.report.kit.fields import Hours, Ratio, Seconds, Timestamp, Unit
from gua.report.states import MS_PER_HOUR

BYTES_PER_GB: Final = 10**9
SILENT: Final = "silent"


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
    no tick of it. ``is_alone``: no other counted process is listed on the card.
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
    container_id: str | None = None
    pod_uid: str | None = None
    slurm_job_id: str | None = None
    systemd_unit: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FreeCard:
    """A card that nothing holds at its newest tick: since when, and how long that was observed.

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Now:
    """As of ``as_of_ms``, the window's end: holders worst first, and free cards.

    Worst first: by how long it is idle, then by memory. ``cards``: how many cards are in each state by their newest
    tick, and how many are :data:`SILENT`, without a tick within three intervals of it: what they do is not known, and
    none of them is listed.
    """

    as_of_ms: Timestamp[int]
    cards: Mapping[str, int]
    holders: tuple[Holder, ...]
    free: tuple[FreeCard, ...]
