"""Whether a report makes streaks: unasked up to a size, asked always, of ticks as far as memory goes."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from gua.core.errors import UnavailableError
from gua.report.hours import Hour
from gua.report.model import Extent

MOST_TICKED: Final = 250_000
"""Card ticks of hours that are not counted, of which streaks can be made in the memory of a query."""
MOST_CARD_HOURS: Final = 150_000
"""Card-hours of which a report makes streaks without being asked to: of 200 cards, 30 days."""
MOST_CARD_HOURS_OF_CARDS: Final = 600_000
"""The same of streaks of cards alone, which take a tenth of the time of those of processes: of 830 cards, 30 days."""
MOST_CARD_HOURS_OF_A_PART: Final = 100_000
"""Card-hours of which streaks of processes are asked for at once: 220 MB, where an embedded engine has 300."""
MOST_CARD_HOURS_IN_PARTS: Final = 2_000_000
"""The same of sections made of runs that are asked for in parts of hosts: of 930 cards, 90 days."""
MOST_CARD_HOURS_AT_ONCE: Final = 500_000
"""The same of those that are asked for of all hosts at once, as what one needs of another's: of 690 cards, 30 days.

Contention of so many fits the 300 MB that an embedded engine has, of twice as many it takes 700 MB.
"""
MOST_CARD_HOURS_OF_TICKS: Final = 2_000_000
"""The same of those that read every tick of a process, host by host: five minutes of a server's CPU."""
MOST_CARD_DAYS: Final = 100_000
"""Card-days that are read as days, of which usage tells who holds cards besides: of 1,100 cards, 90 days."""
MOST_CARD_DAYS_APART: Final = 1_000_000
"""Card-days of which sessions and longest idle times are told unasked: of 11,000 cards, 90 days, in some 400 MB."""
MOST_CARD_HOURS_OF_NOW: Final = 2_000_000
"""Card-hours before now of which who holds cards is told unasked, as a question of its own: 37,000 cards, 54 hours."""
MOST_CARD_HOURS_OF_NOW_AT_ONCE: Final = 600_000
"""The same that are asked for at once, of 11,000 cards, 54 hours: of more in parts of hosts. 480,000 fit 300 MB."""


def skipped(hours: Sequence[Hour], extents: Sequence[Extent], needed_by: Sequence[str]) -> int | None:
    """Return how many card-hours would be too many to make streaks of unasked, ``None`` if they are made.

    ``needed_by``: what was asked for that cannot be had without them. Raises UnavailableError where it cannot be had.
    """
    ticked, card_hours = _sizes(hours, extents)
    if needed_by and ticked > MOST_TICKED:
        msg = (
            f"{needed_by[0]}: {ticked:,} card ticks of this window lie in hours that are not counted yet, and streaks "
            f"are made of {MOST_TICKED:,} at most: run gua rollup first, leave out --from-ticks, or choose a shorter "
            "window"
        )
        raise UnavailableError(msg)
    if needed_by or (ticked <= MOST_TICKED and card_hours <= MOST_CARD_HOURS):
        return None
    return max(card_hours, 1)


def too_many_uncounted(hours: Sequence[Hour]) -> int:
    """Return the card ticks of hours that are not counted, 0 where streaks can be made of them."""
    ticked, _ = _sizes(hours, ())
    return ticked if ticked > MOST_TICKED else 0


def are_made_of_cards(hours: Sequence[Hour], extents: Sequence[Extent], days: Container[int] = ()) -> bool:
    """Return whether streaks of cards are made unasked, also where those of processes would be too many.

    Of the UTC ``days`` they are made of what is kept of a day.
    """
    return _are_few(hours, extents, days, MOST_CARD_HOURS_OF_CARDS)


def are_made_of_processes(hours: Sequence[Hour], extents: Sequence[Extent], days: Container[int] = ()) -> bool:
    """Return whether processes are told apart unasked (sessions, who holds cards), also where not all streaks are made.

    Of the UTC ``days`` a process is what is kept of it on a day.
    """
    return _are_few(hours, extents, days, MOST_CARD_HOURS) and _of_days(hours, extents, days) <= MOST_CARD_DAYS


def sessions_are_told_apart(hours: Sequence[Hour], extents: Sequence[Extent], days: Container[int]) -> bool:
    """Return the same of sessions and longest idle times alone, of a fleet that is asked besides who holds cards."""
    return _are_few(hours, extents, days, MOST_CARD_HOURS) and _of_days(hours, extents, days) <= MOST_CARD_DAYS_APART


def holders_are_told_apart(hours: Sequence[Hour], extents: Sequence[Extent], before_now: Container[int]) -> bool:
    """Return whether it is told unasked who holds the cards of a large fleet; days ``before_now`` are read as days."""
    return _are_few(hours, extents, before_now, MOST_CARD_HOURS_OF_NOW)


def hours_of_now(hours: Sequence[Hour], before_now: Container[int]) -> int:
    """Return how many hours are read as such where it is told who holds cards."""
    return sum(hour.hour // 24 not in before_now for hour in hours)


def are_made_of_runs(hours: Sequence[Hour], extents: Sequence[Extent], most: int) -> bool:
    """Return whether a section that is made of runs of up to ``most`` card-hours is made unasked.

    A part has one host at least, and none may have more card-hours than streaks are made of unasked.
    """
    ticked, card_hours = _sizes(hours, extents)
    of_hosts: dict[str, int] = {}
    for extent in extents:
        of_hosts[extent.host] = of_hosts.get(extent.host, 0) + extent.cards
    of_one = max(of_hosts.values(), default=0) * len(hours)
    return ticked <= MOST_TICKED and card_hours <= most and of_one <= MOST_CARD_HOURS


def are_read_as_ticks(hours: Sequence[Hour], extents: Sequence[Extent], most: int) -> bool:
    """Return whether a section that reads the ticks of up to ``most`` card-hours is made unasked."""
    return _sizes(hours, extents)[1] <= most


def _of_days(hours: Sequence[Hour], extents: Sequence[Extent], days: Container[int]) -> float:
    """Return the card-days that are read as days."""
    return sum(hour.hour // 24 in days for hour in hours) * sum(extent.cards for extent in extents) / 24


def _are_few(hours: Sequence[Hour], extents: Sequence[Extent], days: Container[int], most: int) -> bool:
    ticked, card_hours = _sizes([hour for hour in hours if hour.hour // 24 not in days], extents)
    return ticked <= MOST_TICKED and card_hours <= most


def _sizes(hours: Sequence[Hour], extents: Sequence[Extent]) -> tuple[int, int]:
    """Return the card ticks of hours that are not counted, and the card-hours of all."""
    ticked = sum(hour.card_ticks for hour in hours if not hour.is_counted)
    return ticked, len(hours) * sum(extent.cards for extent in extents)
