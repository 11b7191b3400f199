"""Idle streaks of reservations: how long their owners have not used the cards, computed from ticks.

A tick in which a card is used ends the streak. So do unknown use and time that no tick covers: unknown is never idle.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gua.core.allocation import use
from gua.core.facts import card_facts
from gua.core.idleness import GAP_MS
from gua.core.rules import SHIPPED, State, classify
from gua.core.tick import AllocationReading, Tick
from gua.core.words import Use
from gua.reservations.model import Kind

_IDLE: Final = frozenset({Use.HELD, Use.EMPTY})
_USED: Final = frozenset({State.ACTIVE, State.IDLE_HELD})
_REMEMBERED_MS: Final = 30 * 24 * 3_600_000  # bounds the memory for UUIDs of past MIG instances


@dataclass(frozen=True, slots=True)
class IdleStreak:
    """Ticks in a row in which a card, or all of a reservation's cards, were idle.

    ``since_ms`` is the start, ``seen_ms`` the newest tick (Unix ms); ``idle_ms`` is the time that the ticks cover [ms].
    """

    since_ms: int
    seen_ms: int
    idle_ms: int


class IdleReservations:
    """Tracks idle reservations of one source and idle-held cards from tick to tick. For one thread.

    By UUID, ``cards`` are the starts of current idle-held streaks, and ``last_used_ms`` the newest times with a process
    or allocation, both Unix ms. Both are replaced, never changed, so other threads may read them.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._streaks: dict[str, IdleStreak] = {}
        self._held: dict[str, IdleStreak] = {}
        self.cards: Mapping[str, int] = {}
        self.last_used_ms: Mapping[str, int] = {}

    def ticked(self, tick: Tick) -> dict[str, IdleStreak]:
        """Add a tick; return the streaks of reservations that are idle in it, by reservation id."""
        idle: dict[str, bool] = {}
        covered: dict[str, int] = {}
        held: dict[str, IdleStreak] = {}
        used: dict[str, int] = {}
        for card in tick.cards:
            state = classify(card_facts(card), SHIPPED).state
            if state in _USED:
                used[card.uuid] = tick.ts_ms
            elif card.allocations:  # their time ends with the tick or within it
                used[card.uuid] = max(min(each.until_ms or tick.ts_ms, tick.ts_ms) for each in card.allocations)
            if state is State.IDLE_HELD:
                held[card.uuid] = _longer(self._held.get(card.uuid), tick.ts_ms, card.duration_ms)
            for each in card.allocations:
                if each.source != self._source:
                    continue
                idle[each.id] = idle.get(each.id, True) and _is_idle(each, state)
                covered[each.id] = min(covered.get(each.id, each.duration_ms), each.duration_ms)
        self._held, self.cards = held, {uuid: streak.since_ms for uuid, streak in held.items()}
        recent = {uuid: at_ms for uuid, at_ms in self.last_used_ms.items() if tick.ts_ms - at_ms < _REMEMBERED_MS}
        self.last_used_ms = {**recent, **used}
        self._streaks = {
            identifier: _longer(self._streaks.get(identifier), tick.ts_ms, covered[identifier])
            for identifier, is_idle in idle.items()
            if is_idle
        }
        return dict(self._streaks)


def _is_idle(allocation: AllocationReading, state: State) -> bool:
    now = use(state, allocation.relation)
    if now is not Use.USED_BY_OTHERS:
        return now in _IDLE
    # A command may run as another user (sudo), so activity on its card may be its own.
    return allocation.kind != Kind.RUN.value or state is not State.ACTIVE


def _longer(before: IdleStreak | None, ts_ms: int, covered_ms: int) -> IdleStreak:
    began_ms = ts_ms - covered_ms
    if before is None or not before.seen_ms <= began_ms + GAP_MS <= before.seen_ms + 2 * GAP_MS:
        return IdleStreak(since_ms=began_ms, seen_ms=ts_ms, idle_ms=covered_ms)
    return IdleStreak(since_ms=before.since_ms, seen_ms=ts_ms, idle_ms=before.idle_ms + covered_ms)
