"""The sections of a report, listed once in the order in which they are printed and numbered."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Listed(NamedTuple):
    """The module of this package that declares a section, and properties that need no import of it.

    The declaration of ``idle-capacity`` is ``IDLE_CAPACITY_SECTION``. ``is_default``: shown unless other sections are
    chosen. ``part_of``: the section whose number it shares.
    """

    module: str
    is_default: bool = False
    part_of: str | None = None


LISTED: Final[Mapping[str, Listed]] = {
    "headline": Listed("headline", is_default=True),
    "now": Listed("now", is_default=True),
    "idle-capacity": Listed("headline", is_default=True),
    "groups": Listed("groups", is_default=True),
    "cards": Listed("groups", is_default=True, part_of="groups"),
    "usage": Listed("usage", is_default=True),
    "allocation": Listed("allocation", is_default=True),
    "time-of-day": Listed("calendar", is_default=True),
    "streaks": Listed("streaks"),
    "what-if": Listed("streaks"),
    "contention": Listed("contention"),
    "money": Listed("money"),
    "energy": Listed("energy"),
    "week": Listed("calendar"),
    "days": Listed("calendar"),
    "previous": Listed("previous"),
    "timeline": Listed("timeline"),
    "usefulness": Listed("usefulness"),
    "right-size": Listed("right_size"),
    "slow-cards": Listed("slow_cards"),
    "notices": Listed("notices"),
}
