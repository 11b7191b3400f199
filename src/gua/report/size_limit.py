"""Up to what size a report makes sections that nobody named, and how much one query reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gua.report.hours import Hour
from gua.report.model import Extent

MOST_UNROLLED_TICKS: Final = 250_000
"""Card ticks of hours that are not rolled up: of more, an embedded store rolls them up before it reports."""
MOST_CARD_HOURS_OF_A_PART: Final = 100_000
"""Card-hours of which intervals of processes are read by one query: 220 MB, where an embedded engine has 300."""
MOST_CARD_HOURS_IN_PARTS: Final = 2_000_000
"""Card-hours up to which sections that read intervals in parts of hosts are made by default: 930 cards, 90 days."""
MOST_CARD_HOURS_AT_ONCE: Final = 500_000
"""The same of those that are read of all hosts at once: 690 cards, 30 days."""
MOST_CARD_HOURS_OF_TICKS: Final = 2_000_000
"""The same of those that read every tick of a process, host by host."""


def card_hours(hours: Sequence[Hour], extents: Iterable[Extent]) -> int:
    """Return the card-hours of a window."""
    return len(hours) * sum(extent.cards for extent in extents)
