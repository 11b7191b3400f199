"""Activity of a whole card's multiprocessors and memory, by its performance counters, where somebody asked for it.

It is asked for beside the rest of the card, in a ticket of its own: a call that hangs, or is refused, costs the
activity alone (:mod:`gua.nvml.given_up`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gua.core.ports import Activity, Clock, RawCard
from gua.nvml.calls import Calls, CardLostError, DriverGoneError
from gua.nvml.driver import Driver, Handle
from gua.nvml.given_up import GivenUp
from gua.nvml.gpm import Gpm, GpmMeans
from gua.nvml.workers import Ticket

# Any other failure may be over at the next reading.
_REFUSED: Final = "NO_PERMISSION"


class CardActivity:
    """What one whole card tells of its activity. Its counters are those of one thread at a time.

    ``given_up`` is what is not asked for any more, told with every reading; ``is_absent`` that the card has none.
    """

    def __init__(self, uuid: str, clock: Clock) -> None:
        self.gpm = Gpm(clock, with_utilization=False, with_activity=True)
        self.given_up = GivenUp(uuid)
        self.forget()

    def forget(self) -> None:
        """Ask again: the driver is opened anew."""
        self.given_up.forget()
        self.is_absent = False
        self._begins_anew = False
        self._means: GpmMeans | None = None
        self._is_read = False

    def give_up(self, ticket: Ticket) -> None:
        """Leave a ticket alone that is inside a call; what it may still take is no beginning of a mean."""
        self.given_up.add(ticket)
        self._begins_anew = True

    def ask(self, driver: Driver, calls: Calls, handle: Handle) -> None:
        """Read the counters, for :meth:`take`."""
        self._means, self._is_read = None, False
        if self._begins_anew:
            self.gpm.begin_anew()
            self._begins_anew = False
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
        for error in calls.errors:
            if error.code == _REFUSED:
                self.given_up.refuse(error)
        if self._means is not None:
            return active(card, self._means, self._means.activity)
        return replace(card, has_activity=True) if self._is_read else card


def active(card: RawCard, means: GpmMeans, activity: Activity | None) -> RawCard:
    """Return a card with its activity over the span of the means."""
    if activity is None:
        return card
    return replace(card, activity=activity, activity_ms=means.end_ms - means.start_ms, has_activity=True)
