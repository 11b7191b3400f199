"""Which sections a report has, by the names that ``--section`` takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gua.core.errors import UsageError

HEADLINE: Final = "headline"
NOW: Final = "now"
IDLE_CAPACITY: Final = "idle-capacity"
GROUPS: Final = "groups"
CARDS: Final = "cards"
WHO: Final = "who"
STREAKS: Final = "streaks"
WHAT_IF: Final = "what-if"
CONTENTION: Final = "contention"
MONEY: Final = "money"
ENERGY: Final = "energy"
TIME_OF_DAY: Final = "time-of-day"
WEEK: Final = "week"
DAYS: Final = "days"
BEFORE: Final = "before"
TIMELINE: Final = "timeline"

SECTIONS: Final = (
    HEADLINE,
    NOW,
    IDLE_CAPACITY,
    GROUPS,
    CARDS,
    WHO,
    STREAKS,
    WHAT_IF,
    CONTENTION,
    MONEY,
    ENERGY,
    TIME_OF_DAY,
    WEEK,
    DAYS,
    BEFORE,
    TIMELINE,
)
"""All sections in the order in which they are printed."""

DEFAULT: Final = (HEADLINE, NOW, IDLE_CAPACITY, GROUPS, CARDS, WHO, TIME_OF_DAY)
"""What a report has if nobody chooses; the basis always comes with it."""

ALL: Final = "all"


def choose_sections(names: Sequence[str]) -> frozenset[str]:
    """Return the sections of these names (``all``: every one), the default ones of none. Raises UsageError."""
    if not names:
        return frozenset(DEFAULT)
    for name in names:
        if name not in SECTIONS and name != ALL:
            msg = f"there is no section {name!r}: there are {', '.join(SECTIONS)}, and all"
            raise UsageError(msg)
    return frozenset(SECTIONS if ALL in names else names)
