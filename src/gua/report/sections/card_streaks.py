"""Streaks of cards: what each card's newest tick found and since when, and what the idle-held hours are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from gua.core.parameters import READ
from gua.core.rules import State
from gua.core.untrusted import is_word_of
from gua.core.view import Count, Moment, ValueKind, View
from gua.report.asking import Asking, Finish
from gua.report.questions import Answer

LONG_STREAK_MS: Final = 30 * 60_000
"""A streak of idle-held ticks of a card from this length on is a long one [ms]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleSplit:
    """GPU time in ms of idle-held cards by the streak it lies in: together the idle-held time of the headline.

    A streak is idle-held ticks of one card in a row: an active or truly-idle tick ends it; an unknown tick, or a gap of
    up to twice the longer of the two ticks beside it, does not. ``never_used``: no engine, process or sample of any
    tick of the streak was above 0. ``low``: some was, and stayed below ``active_utilization``. ``long`` is the part
    in streaks of :data:`LONG_STREAK_MS` and more. A streak is what lies of it in the window.
    """

    never_used_gpu_ms: float
    never_used_long_gpu_ms: float
    low_gpu_ms: float
    low_long_gpu_ms: float

    @property
    def long_gpu_ms(self) -> float:
        """Return the GPU time in long streaks."""
        return self.never_used_long_gpu_ms + self.low_long_gpu_ms


class CardStreaksRow(NamedTuple):
    """What a card's newest tick found, since when (Unix ms), and its idle-held GPU time in us by its streaks."""

    host: str
    gpu: str
    state: Annotated[str, ValueKind(is_word_of(*State, ""))]
    as_of_ms: Moment
    newest_span_ms: Count
    since_ms: Moment | None
    in_state_ms: Count | None
    in_state_us: Count | None
    is_lower_bound: bool
    watched_since_ms: Moment
    never_used_us: Count
    never_used_long_us: Count
    low_us: Count
    low_long_us: Count
    free_ratio_at_this_hour: float | None


CARD_STREAKS: Final = View("card_streaks", CardStreaksRow, (*READ, "timezone", "long_streak_ms"))


def ask_cards(asking: Asking) -> Answer[CardStreaksRow]:
    """Query each card's newest state, since when it lasts, and what its idle-held time is made of."""
    return asking.rows_in_parts(CARD_STREAKS, long_streak_ms=LONG_STREAK_MS)


def ask_split(asking: Asking) -> Finish:
    """Query what the idle-held time of all cards is made of."""
    cards = ask_cards(asking)
    return lambda _headline, _cards: idle_split(cards())


def idle_split(rows: Sequence[CardStreaksRow]) -> IdleSplit:
    """Return the idle-held time of all cards by the streaks it lies in."""
    return IdleSplit(
        never_used_gpu_ms=sum(row.never_used_us for row in rows) / 1000,
        never_used_long_gpu_ms=sum(row.never_used_long_us for row in rows) / 1000,
        low_gpu_ms=sum(row.low_us for row in rows) / 1000,
        low_long_gpu_ms=sum(row.low_long_us for row in rows) / 1000,
    )
