"""Size limits: of sections in a default report, of one query, and of hours without a rollup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gua.report.hours import Hour
from gua.report.model import Extent

MOST_UNROLLED_TICKS: Final = 250_000
"""Card ticks without an hourly rollup: above this many an embedded store rolls them up before it reports."""
MOST_CARD_HOURS_OF_A_PART: Final = 100_000
"""Card-hours of process intervals that one query reads: takes 220 MB of the embedded engine's 300."""
MOST_CARD_HOURS_IN_PARTS: Final = 2_000_000
"""Maximum card-hours of default sections that read intervals in batches of hosts: 930 cards over 90 days."""
MOST_CARD_HOURS_AT_ONCE: Final = 500_000
"""Maximum card-hours of default sections that read all hosts in one query: 690 cards over 30 days."""
MOST_CARD_HOURS_OF_TICKS: Final = 2_000_000
"""Maximum card-hours of default sections that read every tick of a process, host by host."""


def card_hours(hours: Sequence[Hour], extents: Iterable[Extent]) -> int:
    """Return the card-hours of a window: its hours with ticks times all cards."""
    return len(hours) * sum(extent.cards for extent in extents)
