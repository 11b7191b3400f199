"""What ``gua top`` shows: every card and every holder as of the newest tick, from whatever source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from gua.core.rules import ProcessState
from gua.core.view import Count, Moment
from gua.core.words import AllocationStatus, Mig, Use
from gua.report.kit.fields import Seconds, Timestamp
from gua.report.states import STATES

UNOBSERVED: Final = "unobserved"
ALL_STATES: Final = (*STATES, UNOBSERVED)
STALE_INTERVALS: Final = 3  # as in gua.current_cards


@dataclass(frozen=True, kw_only=True, slots=True)
class TopAllocation:
    """Whom a card is promised to: ``owner`` is a user, a pod or a user id. ``use`` is one of the seven.

    ``use_ms`` is for how long it has been so, ``None`` if nobody knows, maybe longer where that is a lower bound.
    ``until_ms`` is when it ends (Unix ms), ``None`` if nobody said.
    """

    source: str
    id: str
    owner: str | None
    job_name: str | None
    use: str
    use_ms: Seconds[int | None]
    use_is_lower_bound: bool
    until_ms: Timestamp[int | None] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TopCard:
    """A card at its newest tick, ``age_ms`` ago: a row of ``gua_report.top_cards``. Unknown is ``None``.

    ``now_ms`` is when it was asked for (Unix ms), ``state_ms`` how long it had been in its state by its newest tick,
    maybe longer where that is a lower bound. A card that is unobserved was in ``last_state`` then. ``free_ms`` is how
    long it had been truly-idle and promised to nobody by then, ``None`` if it was not or nobody knows. ``allocation``
    is whether it is promised (allocated, unallocated or unknown), ``None`` where nobody looks; ``allocations`` are
    those that have it, the worst use first. Utilization is a ratio.
    """

    host: str
    gpu: str
    index: Count | None
    name: str | None
    mig: str | None
    state: str
    last_state: str
    reason: str | None
    state_ms: Seconds[Count | None]
    state_is_lower_bound: bool = False
    age_ms: Seconds[int]
    utilization: float | None
    held_lower_bytes: Count | None
    memory_used_bytes: Count | None
    memory_limit_bytes: Count | None
    power_watts: float | None
    temperature_celsius: float | None
    interval_ms: Count | None
    now_ms: Moment
    free_ms: Seconds[Count | None]
    free_is_lower_bound: bool = False
    allocation: str | None
    allocations: tuple[TopAllocation, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether somebody was promised it who is not there."""
        return any(one.use == Use.EMPTY for one in self.allocations)


@dataclass(frozen=True, kw_only=True, slots=True)
class TopHolder:
    """A process on a card at the card's newest tick: a row of ``gua_report.top_holders``.

    ``state`` is active, idle, unknown or unobserved. ``idle_ms`` is for how long it is idle, ``None`` if it is not or
    nobody knows, maybe longer where that is a lower bound.
    """

    host: str
    gpu: str
    index: Count | None
    card_name: str | None
    pid: Count | None
    created_ms: Timestamp[Moment | None]
    owner: str | None
    program: str | None
    type: str | None
    state: str
    idle_ms: Seconds[Count | None]
    idle_is_lower_bound: bool = False
    memory_bytes: Count | None
    utilization: float | None
    container_id: str | None
    pod_uid: str | None
    slurm_job_id: str | None
    systemd_unit: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """All cards and holders as they were told at ``taken_ms`` (Unix ms) by ``source`` (agent or store), at ``where``.

    ``conditions`` is what the source says is wrong with it.
    """

    source: str
    where: str
    taken_ms: int
    cards: tuple[TopCard, ...]
    holders: tuple[TopHolder, ...]
    conditions: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts of the cards, sorted."""
        return tuple(sorted({card.host for card in self.cards}))

    @property
    def states(self) -> Mapping[str, int]:
        """Return how many GPUs that are not partitioned and MIG instances are in each state, unobserved too."""
        found = Counter(card.state for card in self.cards if card.mig != Mig.PARENT)
        return {state: found[state] for state in ALL_STATES}

    @property
    def promised(self) -> tuple[int, int] | None:
        """Return how many cards are promised, and how many of these are empty; ``None`` where nobody looks."""
        known = [card for card in self.cards if card.mig != Mig.PARENT and card.state != UNOBSERVED]
        if all(card.allocation is None for card in known):
            return None
        allocated = [card for card in known if card.allocation == AllocationStatus.ALLOCATED]
        return len(allocated), sum(card.is_empty for card in allocated)

    @property
    def due_ms(self) -> int | None:
        """Return how long it is until the next tick of any card is due; ``None`` if none is expected."""
        due = [
            max(card.interval_ms - card.age_ms, 0)
            for card in self.cards
            if card.state != UNOBSERVED and card.interval_ms is not None
        ]
        return min(due, default=None)


def aged(snapshot: Snapshot, elapsed_ms: int) -> Snapshot:
    """Return a snapshot as it is to be read so much later: cards without a tick for three intervals are unobserved."""
    cards = tuple(_aged(card, elapsed_ms) for card in snapshot.cards)
    stale = {(card.host, card.gpu) for card in cards if card.state == UNOBSERVED}
    holders = tuple(
        replace(holder, state=UNOBSERVED, idle_ms=None) if (holder.host, holder.gpu) in stale else holder
        for holder in snapshot.holders
    )
    return replace(snapshot, cards=cards, holders=holders)


def _aged(card: TopCard, elapsed_ms: int) -> TopCard:
    age_ms = card.age_ms + elapsed_ms
    if card.state != UNOBSERVED and (card.interval_ms is None or age_ms <= STALE_INTERVALS * card.interval_ms):
        return replace(card, age_ms=age_ms)
    return replace(
        card,
        age_ms=age_ms,
        state=UNOBSERVED,
        reason="silent",
        state_ms=age_ms,
        state_is_lower_bound=False,
        free_ms=None,
    )


def is_idle(holder: TopHolder) -> bool:
    """Return whether a holder is known to do nothing."""
    return holder.state == ProcessState.IDLE
