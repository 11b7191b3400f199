"""The sections of a report; listed here, once, in the order in which they are printed and numbered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Listed(NamedTuple):
    """Where a section is declared, as ``module.NAME`` of this package, and what is told of it without importing that.

    ``is_default``: it is shown unless others are chosen. ``part_of``: the section under whose number it stands.
    """

    declared: str
    is_default: bool = False
    part_of: str | None = None


LISTED: Final[Mapping[str, Listed]] = {
    "headline": Listed("headline.section.HEADLINE", is_default=True),
    "now": Listed("now.section.NOW", is_default=True),
    "idle-capacity": Listed("headline.section.IDLE_CAPACITY", is_default=True),
    "groups": Listed("groups.section.GROUPS", is_default=True),
    "cards": Listed("cards.section.CARDS", is_default=True, part_of="groups"),
    "usage": Listed("usage.section.USAGE", is_default=True),
    "allocation": Listed("allocation.section.ALLOCATION", is_default=True),
    "time-of-day": Listed("calendar.section.TIME_OF_DAY", is_default=True),
    "streaks": Listed("streaks.section.STREAKS"),
    "what-if": Listed("streaks.section.WHAT_IF"),
    "contention": Listed("contention.section.CONTENTION"),
    "money": Listed("money.section.MONEY"),
    "energy": Listed("energy.section.ENERGY"),
    "week": Listed("calendar.section.WEEK"),
    "days": Listed("calendar.section.DAYS"),
    "previous": Listed("calendar.section.PREVIOUS"),
    "timeline": Listed("timeline.section.TIMELINE"),
    "usefulness": Listed("usefulness.section.USEFULNESS"),
    "right-size": Listed("right_size.section.RIGHT_SIZE"),
    "slow-cards": Listed("slow_cards.section.SLOW_CARDS"),
}
