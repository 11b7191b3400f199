"""The sections of a report, a folder each; listed here, once, in the order in which they are printed and numbered."""

from __future__ import annotations

from typing import Final

LISTED: Final[tuple[str, ...]] = (
    "headline.HEADLINE",
    "now.NOW",
    "headline.IDLE_CAPACITY",
    "groups.GROUPS",
    "cards.CARDS",
    "usage.USAGE",
    "allocation.ALLOCATION",
    "calendar.TIME_OF_DAY",
    "streaks.STREAKS",
    "streaks.WHAT_IF",
    "contention.CONTENTION",
    "money.MONEY",
    "energy.ENERGY",
    "calendar.WEEK",
    "calendar.DAYS",
    "calendar.PREVIOUS",
    "timeline.TIMELINE",
    "usefulness.USEFULNESS",
    "right_size.RIGHT_SIZE",
)
"""``folder.NAME``: the declaration ``NAME`` in the folder's ``section.py``."""
