"""Requests for cards in strict order: their places, which outlast the agent for a while, and how long they wait."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from gua.core.allocation import QueueWaits
from gua.core.errors import GuaError, UnavailableError
from gua.reservations.ledger import Ledger
from gua.reservations.model import CardRequest, Surroundings, Wish

PLACE_SECONDS: Final = 60.0
"""How long a place in the queue outlasts the agent that kept it."""


@dataclass(slots=True)
class WaitMeter:
    """Adds up waiting between looks, whatever came and went meanwhile; to be used under the lock of the queue.

    ``now_ms`` is a clock that nobody sets, in ms.
    """

    now_ms: Callable[[], int]
    _waiting: int = 0
    _since_ms: int | None = None
    _wait_ms: int = 0
    _waited_ms: int = 0

    def note(self, waiting: int) -> None:
        """Take note that so many requests wait from now on."""
        now_ms = self.now_ms()
        if self._since_ms is not None and self._waiting:
            passed_ms = max(0, now_ms - self._since_ms)
            self._wait_ms += self._waiting * passed_ms
            self._waited_ms += passed_ms
        self._waiting, self._since_ms = waiting, now_ms

    def take(self) -> QueueWaits:
        """Return what was waited since it was taken last, and begin anew."""
        self.note(self._waiting)
        taken = QueueWaits(waiting=self._waiting, wait_ms=self._wait_ms, waited_ms=self._waited_ms)
        self._wait_ms = self._waited_ms = 0
        return taken


class Queue:
    """The requests that wait, in their order; to be used under the lock of the desk.

    It begins with the places of the last agent, but of those who have ended meanwhile: nobody comes back to these.
    Methods raise UnavailableError where the ledger cannot be written.
    """

    def __init__(self, ledger: Ledger, host: Surroundings) -> None:
        self._ledger = ledger
        self._host = host
        self._waits = WaitMeter(host.boot_ms)
        self._turn = self._kept_to = 0
        self.requests: list[CardRequest] = []
        for request in ledger.queue():
            if host.is_running(request):
                self.requests.append(request)
                self._turn = self._kept_to = request.turn
            else:
                ledger.dequeue(request.place)
        now_ms = host.boot_ms()
        # By place, until when (monotonic) somebody may come back: from the first agent on that they did not come back
        # to, however often it is started anew.
        self._absent = {
            place: time.monotonic() + PLACE_SECONDS - (now_ms - left_ms) / 1000
            for place, left_ms in ledger.left(now_ms).items()
        }
        self._waits.note(len(self.requests))

    def enter(self, request: CardRequest) -> bool:
        """Take a place at the end, or the one that was kept; return whether it was kept.

        A place belongs to the user who took it.
        """
        for position, waiting in enumerate(self.requests):
            if waiting.place != request.place:
                continue
            if waiting.uid == request.uid and request.place in self._absent:
                self._ledger.come_back(request.place)
                del self._absent[request.place]
                self.requests[position] = replace(waiting, pid=request.pid, start_ticks=request.start_ticks)
                return True
            msg = "that place in the queue is taken"
            raise UnavailableError(msg)
        self._turn += 1
        self.requests.append(replace(request, asked_ms=self._host.wall_ms(), turn=self._turn))
        self._waits.note(len(self.requests))
        return False

    def absent_wish(self, place: str, uid: int) -> Wish | None:
        """Return what a user who comes back to a place waits for; ``None`` if nobody is awaited."""
        known = (each for each in self.requests if (each.place, each.uid) == (place, uid) and place in self._absent)
        return next((each.wish for each in known), None)

    def keep(self, place: str) -> None:
        """Write a place down, so that it outlasts the agent.

        With it those before it of whom that is not known yet: the first may be looking at the cards, and none who came
        later is to stand before it where the agent is killed meanwhile.
        """
        turn = next((waiting.turn for waiting in self.requests if waiting.place == place), 0)
        if turn > self._kept_to:
            self._ledger.enqueue(waiting for waiting in self.requests if self._kept_to < waiting.turn <= turn)
            self._kept_to = turn

    def leave(self, place: str) -> None:
        """Give up a place; nothing happens to one that is gone."""
        self.granted(place)
        with contextlib.suppress(GuaError):
            self._ledger.dequeue(place)

    def granted(self, place: str) -> None:
        """Take out the request of a place, which the ledger has taken out with its grant."""
        self.requests = [waiting for waiting in self.requests if waiting.place != place]
        self._waits.note(len(self.requests))

    def position(self, place: str) -> int:
        """Return how many requests stand before a place. Raises UnavailableError where it is gone."""
        for position, waiting in enumerate(self.requests):
            if waiting.place == place:
                return position
        msg = "this place in the queue is gone"
        raise UnavailableError(msg)

    def given_up(self, now: float) -> list[str]:
        """Return the places that nobody comes back to any more, each once: their time is over, or who asked ended."""
        absent = [waiting for waiting in self.requests if waiting.place in self._absent]
        ended = {waiting.place for waiting in absent if not self._host.is_running(waiting)}
        places = [place for place, until in self._absent.items() if until <= now or place in ended]
        for place in places:
            del self._absent[place]
        return places

    def absent_until(self) -> list[float]:
        """Return until when (monotonic) those who are absent may come back."""
        return list(self._absent.values())

    def take_waits(self) -> QueueWaits:
        """Return who waits, and how long requests waited since this was called last."""
        return self._waits.take()
