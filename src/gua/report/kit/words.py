"""Names and phrases that several sections have in common."""

from __future__ import annotations

from typing import Final

from gua.core.words import Mig
from gua.report.kit.figures import plural
from gua.report.kit.style import Style
from gua.report.model import Report

NAME_WIDTH: Final = 32
NOT_KNOWN: Final = "(unknown)"
NOT_LISTED: Final = "(no listed process)"
LEFT_OVER: Final = "MIG slices left over"
GUA: Final = "gua"
"""The source of allocations that are reservations of gua's own."""
COMMANDS: Final = {"run": "gua run", "manual": "gua reserve"}
"""By which command a reservation was made, by its kind."""
_CARD_WIDTH: Final = 30
_ID_WIDTH: Final = 13


def known(name: str | None, style: Style) -> str:
    """Return a name, harmless, or that it is not known."""
    return NOT_KNOWN if name is None else style.name(name, NAME_WIDTH) or '""'


def card_name(name: str | None, gpu: str, style: Style, mig: str | None = None) -> str:
    """Return what a card is called, without the words that all of them have; its id where it has no name."""
    if mig == Mig.PARENT:
        return LEFT_OVER
    short = (name or "").removeprefix("NVIDIA ").removeprefix("GeForce ")
    return style.name(short or gpu, _CARD_WIDTH)


def index(number: int | None, gpu: str, style: Style) -> str:
    """Return a card's index on its host, or where it has none the ends of its id."""
    return style.name(gpu, _ID_WIDTH) if number is None else str(number)


def skipped(report: Report, what: str) -> str:
    """Return why something was not looked at, and what to do."""
    hours = plural(report.streaks_skipped or 0, "card-hour")
    return (
        f"{what} was not looked at: the ticks of {hours} would have to be read. Choose a shorter window or fewer "
        "hosts, or ask for it with --section now."
    )
