"""Calls to the driver: errors are collected, and a call that does not return blocks only its own card.

A card's calls are a :class:`Job` of an :class:`Executor`, which runs the jobs of all cards and waits for them until one
deadline. A job that is not done by then goes on in its thread, and its card gets no other job before it returns.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from queue import SimpleQueue
from typing import Final, ParamSpec, TypeVar

from gua.core.tick import NO_ANSWER, ReadError
from gua.nvml.driver import Code, Driver, code_name, code_of

_NO_MEANINGS: Final[Mapping[int, None]] = {}
P = ParamSpec("P")
T = TypeVar("T")

LOST: Final = frozenset({Code.GPU_IS_LOST, Code.RESET_REQUIRED})
GONE: Final = frozenset({Code.UNINITIALIZED, Code.DRIVER_NOT_LOADED, Code.LIB_RM_VERSION_MISMATCH})
ABSENT: Final[dict[int, None]] = dict.fromkeys((Code.NOT_SUPPORTED, Code.FUNCTION_NOT_FOUND))
"""A card or driver that does not have what a call reads: no error."""

# A host that was busy for a moment delays a call, too; one that is late each time delays each reading.
_MOST_LATE: Final = 3
# How long jobs wait for the one thread that is at work before they get another one.
_SLOW_SECONDS: Final = 0.005
# How often a wait checks whether the program is to stop, and how long it then lasts at most.
_CHECK_SECONDS: Final = 0.2
_LAST_SECONDS: Final = 1.0
# How long optional calls are waited for.
_OPTIONAL_SECONDS: Final = 1.0
_NO_THREAD: Final = ("pthread_create", "EAGAIN")


class CardLostError(Exception):
    """The card is gone or needs a reset: no further call can return anything about it."""


class DriverGoneError(Exception):
    """The driver is gone as a whole: only opening it again can help."""


class AbandonedError(Exception):
    """The job was abandoned: nobody waits for further calls."""


class Calls:
    """Calls the driver about one card (or about none) and collects the errors.

    ``running`` is the name of the call that is under way. ``answers`` counts the calls that returned a value; an error
    that has a meaning is none. From ``optional_since`` on (time.monotonic) only optional calls are made, without those
    named in ``given_up``. Once ``abandoned`` is set, the call under way is the last.
    """

    def __init__(self, driver: Driver, uuid: str | None = None) -> None:
        self.driver = driver
        self.uuid = uuid
        self.errors: list[ReadError] = []
        self.running = ""
        self.answers = 0
        self.optional_since: float | None = None
        self.given_up: Collection[str] = ()
        self.abandoned = False

    def ask(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return the answer, or ``None`` and add the error. Raises as :meth:`ask_with`."""
        return self.ask_with(_NO_MEANINGS, function, *args, **kwargs)

    def ask_with(
        self, meanings: Mapping[int, T | None], function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Return the answer, or what ``meanings`` has for the error code, which then is no error.

        Any other error is added to ``errors`` and returns ``None``. Raises CardLostError and DriverGoneError, and
        AbandonedError where nobody waits for the answer.
        """
        if self.abandoned:
            raise AbandonedError
        if function.__name__ in self.given_up:
            self.note(function.__name__, NO_ANSWER)
            return None
        self.running = function.__name__
        try:
            try:
                answer = function(*args, **kwargs)
            except self.driver.NVMLError as error:
                if code_of(error) != Code.INSUFFICIENT_SIZE:
                    raise
                # nvidia-ml-py reads the size first; more came in between, which a second try has room for.
                answer = function(*args, **kwargs)
        except self.driver.NVMLError as error:
            code = code_of(error)
            if code in meanings:
                return meanings[code]
            self.note(function.__name__, code_name(code))
            if code in LOST:
                raise CardLostError from error
            if code in GONE:
                raise DriverGoneError from error
            return None
        except UnicodeDecodeError:
            self.note(function.__name__, "text that is not UTF-8")
            return None
        self.answers += 1
        return answer

    def note(self, call: str, code: str) -> None:
        """Add the error of a call that failed, or whose answer cannot be true."""
        self.errors.append(ReadError(call=call, code=code, uuid=self.uuid))


class Job:
    """Work for a thread of an executor; ``calls`` shows how far it is and what failed.

    ``hung`` is whether its deadline passed: it is not waited for again, and its result is not used.
    """

    def __init__(self, calls: Calls, work: Callable[[], None]) -> None:
        self.calls = calls
        self.hung = False
        self._work = [work]
        self._ended = threading.Event()

    def run(self) -> None:
        """Do the work. A fault of this program is added as an error of the call, so that the thread lives on."""
        try:
            work = self._work.pop()  # not kept: a waiting thread must not keep alive what it worked for
        except IndexError:  # cancelled
            return
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not end the sampling of a card
            self.calls.note(self.calls.running, type(error).__name__)
        self._ended.set()

    def cancel(self) -> bool:
        """End a job that has not begun; return whether it had not."""
        try:
            self._work.pop()
        except IndexError:
            return False
        self._ended.set()
        return True

    @property
    def done(self) -> bool:
        """Whether the work returned, or was cancelled."""
        return self._ended.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait so long at most; return whether it is done."""
        return self._ended.wait(seconds)

    def seconds_left(self, until: float) -> float:
        """Return how long to wait for this where the deadline is ``until`` (time.monotonic)."""
        since = self.calls.optional_since
        return (until if since is None else min(until, since + _OPTIONAL_SECONDS)) - time.monotonic()

    def no_answer(self) -> ReadError:
        """Return the error of a job that is not done."""
        return ReadError(call=self.calls.running or _NO_THREAD[0], code=NO_ANSWER, uuid=self.calls.uuid)


class _Threads:
    """What the threads share: never their executor, so that they end when it is collected. At most one is idle."""

    def __init__(self) -> None:
        self.inbox: SimpleQueue[Job | None] = SimpleQueue()
        self.count = self.idle = 0
        self._is_closed = False
        self._lock = threading.Lock()

    def add(self) -> None:
        """Start a thread, unless one is idle. Raises RuntimeError where the host has no room for it."""
        if not self.idle:
            threading.Thread(target=self._run, name="nvml", daemon=True).start()
            with self._lock:
                self.count += 1

    def close(self) -> None:
        """Let each thread end, at once or when its job is done."""
        self._is_closed = True
        self.inbox.put(None)

    def _run(self) -> None:
        while self._stays() and (job := self.inbox.get()) is not None:
            with self._lock:
                self.idle -= 1
            job.run()
            del job

    def _stays(self) -> bool:
        with self._lock:
            if self.idle or self._is_closed:
                self.count -= 1
                return False
            self.idle += 1
            return True


class Executor:
    """Runs jobs in daemon threads: in one, as long as they end at once; behind a slow job the next one gets another.

    To be used from one thread. The threads end when it is closed or collected. Not concurrent.futures: its threads are
    joined at exit, so a call that never returns would block the exit.
    """

    def __init__(self, stopping: Callable[[], bool]) -> None:
        self._stopping = stopping
        self._threads = _Threads()
        self._hung: list[Job] = []
        self.close = weakref.finalize(self, self._threads.close)

    def run(self, jobs: Sequence[Job], until: float) -> None:
        """Start jobs and :meth:`wait` for them. Where no thread can run them they are done, with that error."""
        for job in jobs:
            self._threads.inbox.put(job)
        self._hung = [job for job in self._hung if not job.done]
        if jobs and self._threads.count <= len(self._hung):
            try:
                self._threads.add()
            except RuntimeError:
                for job in jobs:
                    job.calls.note(*_NO_THREAD)
                    job.cancel()
        self.wait(jobs, until)

    def wait(self, jobs: Sequence[Job], until: float) -> None:
        """Return when each job is done or its time is over, at ``until`` (time.monotonic) at the latest.

        From the moment when ``stopping`` returns true it lasts a second at most.
        """
        is_stopping = False
        # One thread does them in order: who waits for the last is woken once.
        for job in reversed(jobs):
            while not job.done and (left := job.seconds_left(until)) > 0:
                is_waiting = not self._threads.inbox.empty()
                if job.wait(min(left, _SLOW_SECONDS if is_waiting else _CHECK_SECONDS)):
                    break
                if not self._threads.inbox.empty():
                    with contextlib.suppress(RuntimeError):  # then those that are there go on
                        self._threads.add()
                if not is_stopping and self._stopping():
                    is_stopping = True
                    until = min(until, time.monotonic() + _LAST_SECONDS)

    def give_up(self, job: Job) -> None:
        """Cancel a job that no thread has begun; count the thread of another as lost until the job is done."""
        if not job.cancel():
            job.hung = True
            self._hung.append(job)


class GivenUp:
    """Optional calls of one card that are not made: they have not returned, were late three times, or are refused."""

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self._late: dict[str, list[Job]] = {}
        self._refused: dict[str, ReadError] = {}

    def abandon(self, job: Job) -> None:
        """Give up the call that a job is inside of, and the job with it."""
        job.calls.abandoned = True
        self._late.setdefault(job.calls.running, []).append(job)

    def refuse(self, error: ReadError) -> None:
        """Give up a call that the driver refuses: permissions do not come back by themselves."""
        self._refused[error.call] = error

    def forget(self) -> None:
        """Make all calls again: the driver is opened again."""
        self._late.clear()
        self._refused.clear()

    @property
    def calls(self) -> frozenset[str]:
        """The names of the calls that are not made now."""
        return frozenset(error.call for error in self.errors())

    def errors(self) -> list[ReadError]:
        """Return the error of each of these calls, for each reading."""
        late = [
            ReadError(call=call, code=NO_ANSWER, uuid=self._uuid)
            for call, jobs in sorted(self._late.items())
            if len(jobs) >= _MOST_LATE or not all(job.done for job in jobs)
        ]
        return [*late, *self._refused.values()]
