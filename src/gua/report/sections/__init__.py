"""The sections of a report, a folder each; listed here, once, in the order in which they are printed and numbered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LISTED: Final[Mapping[str, str]] = {
    "headline": "headline.HEADLINE",
    "now": "now.NOW",
    "idle-capacity": "headline.IDLE_CAPACITY",
    "groups": "groups.GROUPS",
    "cards": "cards.CARDS",
    "usage": "usage.USAGE",
    "allocation": "allocation.ALLOCATION",
    "time-of-day": "calendar.TIME_OF_DAY",
    "streaks": "streaks.STREAKS",
    "what-if": "streaks.WHAT_IF",
    "contention": "contention.CONTENTION",
    "money": "money.MONEY",
    "energy": "energy.ENERGY",
    "week": "calendar.WEEK",
    "days": "calendar.DAYS",
    "previous": "calendar.PREVIOUS",
    "timeline": "timeline.TIMELINE",
    "usefulness": "usefulness.USEFULNESS",
    "right-size": "right_size.RIGHT_SIZE",
    "slow-cards": "slow_cards.SLOW_CARDS",
}
"""By name ``folder.NAME``: the declaration ``NAME`` in the folder's ``section.py``, imported where it is wanted."""
