"""Calls that a card can do without and that did not come back, or were refused: they are not made again."""

from __future__ import annotations

from typing import Final

from gua.core.tick import NO_ANSWER, ReadError
from gua.nvml.workers import Ticket

# A host that was held up for a moment makes a call late, too; one that is late each time holds up each reading.
MOST_LATE: Final = 3


class GivenUp:
    """The calls of one card that were waited for in vain, or that its driver refuses.

    One that has not come back is not made again, nor is one that was too late three times.
    """

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self._late: dict[str, list[Ticket]] = {}
        self._refused: dict[str, ReadError] = {}

    def add(self, ticket: Ticket) -> None:
        """Leave a ticket alone that is inside a call."""
        ticket.calls.left_alone = ticket.hung = True
        self._late.setdefault(ticket.calls.running, []).append(ticket)

    def refuse(self, error: ReadError) -> None:
        """Make a call no more that the driver refuses: rights do not come back by themselves."""
        self._refused[error.call] = error

    def forget(self) -> None:
        """Make all of them again: the driver is opened anew."""
        self._late.clear()
        self._refused.clear()

    @property
    def calls(self) -> frozenset[str]:
        """The names of the calls that are not made now."""
        return self._unanswered | self._refused.keys()

    @property
    def _unanswered(self) -> frozenset[str]:
        return frozenset(
            call
            for call, tickets in self._late.items()
            if len(tickets) >= MOST_LATE or not all(ticket.done for ticket in tickets)
        )

    def errors(self) -> list[ReadError]:
        """Return what tells of these calls at each reading."""
        unanswered = [ReadError(call=call, code=NO_ANSWER, uuid=self._uuid) for call in sorted(self._unanswered)]
        return [*unanswered, *self._refused.values()]
