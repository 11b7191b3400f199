"""Streaks of cards: each card's newest state and its beginning, and idle-held time by kind of streak."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from gua.core.parameters import READ
from gua.core.rules import State
from gua.core.untrusted import is_word_of
from gua.core.view import Count, Moment, Named, View
from gua.report.context import Finish, ReportContext
from gua.report.kit.fields import Hours, Seconds, Timestamp, filled, of_card
from gua.report.model import Card, Placed
from gua.report.questions import Answer

LONG_STREAK_MS: Final = 30 * 60_000
"""Length from which an idle-held streak of a card counts as long [ms]."""

STUCK_MS: Final = 10 * 60_000
"""Length above which a stretch of active time without a process is stuck utilization [ms]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StuckCard(Placed):
    """A card with stuck utilization: its GPU time [ms], and the longest stretch: observed time [ms], start and end.

    ``is_current``: the longest stretch lasts until the card's newest tick in the window.
    """

    gpu_ms: Annotated[Hours[float], Named("stuck_us")]
    longest_ms: Annotated[Seconds[int], Named("observed_ms")]
    since_ms: Timestamp[int]
    until_ms: Timestamp[int]
    is_current: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleSplit:
    """GPU time [ms] of idle-held cards by kind of streak; it adds up to the idle-held time of the headline.

    An active or truly-idle tick ends a streak; an unknown tick, or a gap of up to twice the longer tick beside it, does
    not. ``never_used``: no engine, process or sample was above 0 in any tick of the streak. ``low``: some were, all
    below ``active_utilization``. ``long`` is the part in streaks of :data:`LONG_STREAK_MS` or more. Streaks are cut to
    the window. ``stuck`` are the cards with stuck utilization, the longest stretch first.
    """

    never_used_gpu_ms: float
    never_used_long_gpu_ms: float
    low_gpu_ms: float
    low_long_gpu_ms: float
    stuck: tuple[StuckCard, ...] = ()

    @property
    def long_gpu_ms(self) -> float:
        """Return the GPU time in long streaks [ms]."""
        return self.never_used_long_gpu_ms + self.low_long_gpu_ms


class LongestStretch(NamedTuple):
    """Observed time [ms], start and end (Unix ms) of a stretch; all 0 without one."""

    observed_ms: Count
    since_ms: int
    until_ms: int


class CardStreaksRow(NamedTuple):
    """A card's newest state, its beginning (Unix ms), and its idle-held GPU time [us] by kind of streak."""

    host: str
    gpu: str
    state: Annotated[str, is_word_of(*State, "")]
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
    stuck_us: Count
    longest_without: LongestStretch
    free_ratio_at_this_hour: float | None


CARD_STREAKS: Final = View("card_streaks", CardStreaksRow, (*READ, "timezone", "long_streak_ms", "stuck_ms"))


def query_card_streaks(context: ReportContext) -> Answer[CardStreaksRow]:
    """Query each card's newest state, its beginning, and its idle-held time by kind of streak."""
    return context.rows(CARD_STREAKS, long_streak_ms=LONG_STREAK_MS, stuck_ms=STUCK_MS, batched=True)


def query_split(context: ReportContext) -> Finish:
    """Query the idle-held time of all cards by kind of streak, and stuck utilization."""
    rows = query_card_streaks(context)
    return lambda _headline, cards: idle_split(rows(), cards)


def idle_split(rows: Sequence[CardStreaksRow], cards: Sequence[Card]) -> IdleSplit:
    """Return the idle-held time of all cards by kind of streak, and those of ``cards`` with stuck utilization."""
    by_card = {of_card(card): card for card in cards}
    stuck = [
        filled(
            StuckCard,
            by_card[of_card(row)],
            row.longest_without,
            row,
            is_current=row.longest_without.until_ms == row.as_of_ms,
        )
        for row in rows
        if row.stuck_us and of_card(row) in by_card
    ]
    return IdleSplit(
        never_used_gpu_ms=sum(row.never_used_us for row in rows) / 1000,
        never_used_long_gpu_ms=sum(row.never_used_long_us for row in rows) / 1000,
        low_gpu_ms=sum(row.low_us for row in rows) / 1000,
        low_long_gpu_ms=sum(row.low_long_us for row in rows) / 1000,
        stuck=tuple(sorted(stuck, key=lambda one: (-one.longest_ms, one.place()))),
    )
