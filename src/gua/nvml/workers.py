"""Threads that wait for the driver, so that nobody else has to: a call that hangs holds up its own card only.

As long as the driver answers at once, one thread asks about all the cards, one after the other; eight that take
turns at the interpreter would cost three times the switches. As soon as a call is slow, another thread goes on.
"""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from gua.core.tick import NO_ANSWER, ReadError
from gua.nvml.calls import Calls

# How long a thread may be at one piece of work before another one takes the next.
_SLOW_SECONDS: Final = 0.005
# How often a wait looks whether the program is to stop, and how long it then goes on: calls that answer at all
# take milliseconds, and somebody waits.
_LOOK_SECONDS: Final = 0.2
_LAST_SECONDS: Final = 1.0
# How long is waited for what a card can do without.
_SPARE_SECONDS: Final = 1.0
_NO_THREAD: Final = ("pthread_create", "EAGAIN")
# What a thread is told.
_LOOK: Final = object()
_END: Final = object()


class Ticket:
    """One piece of work for some thread; ``calls`` tells how far it is and what failed.

    ``hung`` is whether it was waited for in vain: then nobody waits again, or wants what it brings.
    """

    def __init__(self, calls: Calls, work: Callable[[], None]) -> None:
        self.calls = calls
        self.done = False
        self.hung = False
        self._work: Callable[[], None] | None = work

    def run(self) -> None:
        """Do the work. A fault of this program is kept as an error of the call, so that the thread lives on."""
        # Not kept: a thread that waits may not keep alive what it once worked for.
        work, self._work = self._work, None
        try:
            if work is not None:
                work()
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not end the sampling of a card
            self.calls.note(self.calls.running, type(error).__name__)

    def due(self, until: float) -> float:
        """Return when waiting for this ends (time.monotonic) that may last ``until``."""
        spare_since = self.calls.spare_since
        return until if spare_since is None else min(until, spare_since + _SPARE_SECONDS)

    def no_answer(self) -> ReadError:
        """Return the error that stands for work which is not done."""
        return ReadError(call=self.calls.running or _NO_THREAD[0], code=NO_ANSWER, uuid=self.calls.uuid)


class _WorkQueue:
    """What the threads know: never their pool, so that they end when it is forgotten."""

    def __init__(self) -> None:
        self.waiting: deque[Ticket] = deque()
        self.running: set[Ticket] = set()
        self.inbox: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.finished: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.threads = 0

    def work(self) -> None:
        """Do what waits, each time that somebody says so, until the end is."""
        while self.inbox.get() is _LOOK:
            while self.waiting:
                try:
                    ticket = self.waiting.popleft()
                except IndexError:  # another thread was faster
                    break
                self.running.add(ticket)
                ticket.run()
                ticket.done = True
                self.running.discard(ticket)
                if not self.waiting:
                    # Who waits does so for all of them: to be woken for each would cost as much as the work.
                    self.finished.put(None)

    def stop(self) -> None:
        """Let each thread end, at once or when the call that it waits for comes back."""
        for _ in range(self.threads):
            self.inbox.put(_END)


class Lane:
    """Where one ticket at a time goes, to be done by whatever thread is free."""

    def __init__(self, submit: Callable[[Ticket], None]) -> None:
        self._submit = submit
        self.ticket: Ticket | None = None

    @property
    def busy(self) -> bool:
        """Whether the last ticket is not done yet."""
        return self.ticket is not None and not self.ticket.done

    def submit(self, ticket: Ticket) -> None:
        """Start a ticket; the lane may not be busy. To be waited for: only that brings further threads."""
        self.ticket = ticket
        self._submit(ticket)


def _never() -> bool:
    """Go on for ever."""
    return False


class Workers:
    """Makes lanes and waits for several of them at once. To be used from one thread.

    ``stopping`` tells whether the program was asked to stop; a wait lasts a second at most from then on.
    There are never more threads than unfinished tickets; they end when they are closed or forgotten.
    """

    def __init__(self, stopping: Callable[[], bool] = _never) -> None:
        self._stopping = stopping
        self._queue = _WorkQueue()
        self._end = weakref.finalize(self, self._queue.stop)

    def lane(self) -> Lane:
        """Return a new lane."""
        return Lane(self._submit)

    def close(self) -> None:
        """Let the threads end."""
        self._end()

    def wait(self, tickets: Iterable[Ticket], until: float) -> None:
        """Return when all tickets are done or not waited for longer, at ``until`` (time.monotonic) at the latest."""
        stopping = False
        queue_ = self._queue
        pending = [ticket for ticket in tickets if not ticket.done]
        while pending and (left := max(ticket.due(until) for ticket in pending) - time.monotonic()) > 0:
            try:
                queue_.finished.get(timeout=min(left, _SLOW_SECONDS if queue_.waiting else _LOOK_SECONDS))
            except queue.Empty:
                if queue_.waiting:
                    self._call_thread()
                if not stopping and self._stopping():
                    stopping = True
                    until = min(until, time.monotonic() + _LAST_SECONDS)
            pending = [ticket for ticket in pending if not ticket.done]

    def _submit(self, ticket: Ticket) -> None:
        queue_ = self._queue
        queue_.waiting.append(ticket)
        # A thread looks for more after it has left ``running``, so that one found there takes this ticket too.
        if all(other.hung for other in tuple(queue_.running)) and not self._call_thread():
            queue_.waiting.remove(ticket)
            ticket.calls.note(*_NO_THREAD)
            ticket.done = True

    def _call_thread(self) -> bool:
        """Let one more thread look for work; return False if the host has no room for another thread now."""
        queue_ = self._queue
        if queue_.threads <= len(queue_.running):
            try:
                threading.Thread(target=queue_.work, name=f"nvml {queue_.threads}", daemon=True).start()
            except RuntimeError:
                return False
            queue_.threads += 1
        queue_.inbox.put(_LOOK)
        return True
