"""Activity of a whole card's multiprocessors and memory, by its performance counters, where somebody asked for it.

It is asked for beside the rest of the card, in a ticket of its own: a call that hangs costs the activity alone. It is
then not asked for any more, nor where the driver refuses it, until the driver is opened anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gua.core.ports import Activity, Clock, RawCard
from gua.core.tick import ReadError
from gua.nvml.calls import Calls, CardLostError, DriverGoneError
from gua.nvml.driver import Driver, Handle
from gua.nvml.gpm import Gpm, GpmMeans

# Rights do not come back by themselves; any other failure may.
_REFUSED: Final = "NO_PERMISSION"


class CardActivity:
    """What one whole card tells of its activity. Its counters are those of one thread at a time.

    ``given_up`` is why it is not asked for any more, told with every reading; ``is_absent`` that the card has none.
    """

    def __init__(self, clock: Clock) -> None:
        self.gpm = Gpm(clock, with_utilization=False, with_activity=True)
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        """Ask again: the driver is opened anew."""
        self.given_up: ReadError | None = None
        self.is_absent = False
        self._means: GpmMeans | None = None
        self._is_read = False

    def ask(self, driver: Driver, calls: Calls, handle: Handle) -> None:
        """Read the counters, for :meth:`take`."""
        self._means, self._is_read = None, False
        try:
            if not self.gpm.supported(driver, calls, handle):
                self.is_absent = not calls.errors
                return
            self._means = self.gpm.read(driver, calls, handle)
            self._is_read = not calls.errors
        except (CardLostError, DriverGoneError):
            # The next reading of the card meets the same, and tells it.
            return

    def take(self, calls: Calls, card: RawCard) -> RawCard:
        """Return the card with what :meth:`ask` brought."""
        refused = [error for error in calls.errors if error.code == _REFUSED]
        if refused:
            self.given_up = refused[0]
        if self._means is not None:
            return active(card, self._means, self._means.activity)
        return replace(card, has_activity=True) if self._is_read else card


def active(card: RawCard, means: GpmMeans, activity: Activity | None) -> RawCard:
    """Return a card with its activity over the span of the means."""
    if activity is None:
        return card
    return replace(card, activity=activity, activity_ms=means.end_ms - means.start_ms, has_activity=True)


def failures(activities: Sequence[CardActivity], errors: Sequence[ReadError]) -> list[ReadError]:
    """Return why some are not asked any more, as far as it is not among the errors of this reading."""
    return [one.given_up for one in activities if one.given_up is not None and one.given_up not in errors]
