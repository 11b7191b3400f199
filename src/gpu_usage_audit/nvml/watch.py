"""Threads that wait for the driver, so that nobody else has to: a call that hangs holds up its own card only."""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Final

from gpu_usage_audit.core.tick import ReadError
from gpu_usage_audit.nvml.calls import Calls

# How often a wait looks whether the program is to stop, and how long it then goes on: calls that answer at all
# take milliseconds, and somebody waits.
_LOOK_SECONDS: Final = 0.2
_LAST_SECONDS: Final = 1.0
# Not one of NVML's codes (it has a TIMEOUT of its own): the call has not come back at all.
NO_ANSWER: Final = "NO_ANSWER"


class Ticket:
    """One piece of work for a thread; ``calls`` tells how far it is and what failed.

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

    def no_answer(self) -> ReadError:
        """Return the error that stands for work which is not done."""
        return ReadError(call=self.calls.running, code=NO_ANSWER, uuid=self.calls.uuid)


Inbox = queue.SimpleQueue[Ticket | None]


class Worker:
    """A daemon thread that does one ticket at a time; it starts with the first."""

    def __init__(self, name: str, inbox: Inbox, finished: queue.SimpleQueue[Ticket]) -> None:
        self._name = name
        self._finished = finished
        self._inbox = inbox
        self._started = False
        self.ticket: Ticket | None = None

    @property
    def busy(self) -> bool:
        """Whether the last ticket is not done yet."""
        return self.ticket is not None and not self.ticket.done

    def submit(self, ticket: Ticket) -> None:
        """Start a ticket; the worker may not be busy."""
        self.ticket = ticket
        if not self._started:
            try:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
            except RuntimeError:  # the host has no room for another thread now: the next ticket tries again
                ticket.calls.note("pthread_create", "EAGAIN")
                ticket.done = True
                self._finished.put(ticket)
                return
            self._started = True
        self._inbox.put(ticket)

    def stop(self) -> None:
        """Let the thread end, at once or when the call that it waits for comes back."""
        if self._started:
            self._inbox.put(None)

    def _run(self) -> None:
        while (ticket := self._inbox.get()) is not None:
            ticket.run()
            ticket.done = True
            self._finished.put(ticket)


def _stop(inboxes: Iterable[Inbox]) -> None:
    for inbox in inboxes:
        inbox.put(None)


def _never() -> bool:
    """Go on for ever."""
    return False


class Watch:
    """Makes workers and waits for several of them at once. To be used from one thread.

    ``stopping`` tells whether the program was asked to stop; a wait lasts a second at most from then on.
    Threads whose watch is gone end by themselves.
    """

    def __init__(self, stopping: Callable[[], bool] = _never) -> None:
        self._stopping = stopping
        self._finished: queue.SimpleQueue[Ticket] = queue.SimpleQueue()
        self._inboxes: list[Inbox] = []
        weakref.finalize(self, _stop, self._inboxes)

    def worker(self, name: str) -> Worker:
        """Return a new worker whose thread has this name."""
        self._inboxes.append(queue.SimpleQueue())
        return Worker(name, self._inboxes[-1], self._finished)

    def wait(self, tickets: Iterable[Ticket], until: float) -> None:
        """Return when all tickets are done, or at ``until`` (time.monotonic) at the latest."""
        stopping = False
        # A ticket is put there after it is done: what is thrown away here needs no waiting for.
        while not self._finished.empty():
            self._finished.get_nowait()
        pending = {ticket for ticket in tickets if not ticket.done}
        while pending and (left := until - time.monotonic()) > 0:
            try:
                pending.discard(self._finished.get(timeout=min(left, _LOOK_SECONDS)))
            except queue.Empty:
                if not stopping and self._stopping():
                    stopping = True
                    until = min(until, time.monotonic() + _LAST_SECONDS)
