"""Driver calls that collect errors, and an executor in which a hanging call blocks only its own card.

A card's calls are a :class:`Job` of an :class:`Executor`, which runs the jobs of all cards and waits for them until one
deadline. An unfinished job continues in its thread, and its card gets no other job until it returns.
"""

import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from queue import SimpleQueue
from typing import Final, ParamSpec, TypeVar

from gua.core.tick import NO_ANSWER, ReadError
from gua.nvml.driver import Code, Driver, code_name, error_code

_NO_MEANINGS: Final[Mapping[int, None]] = {}
P = ParamSpec("P")
T = TypeVar("T")

LOST: Final = frozenset({Code.GPU_IS_LOST, Code.RESET_REQUIRED})
GONE: Final = frozenset({Code.UNINITIALIZED, Code.DRIVER_NOT_LOADED, Code.LIB_RM_VERSION_MISMATCH})
ABSENT: Final[dict[int, None]] = dict.fromkeys((Code.NOT_SUPPORTED, Code.FUNCTION_NOT_FOUND))
"""Results for codes that mean a card or driver lacks the feature, which is not an error."""

# A busy host may delay a call occasionally; a call that is late this often would delay every reading.
_MOST_LATE: Final = 3
# How long jobs wait behind a busy thread before another thread starts.
_SLOW_SECONDS: Final = 0.005
# How often a wait checks for shutdown, and the longest wait after it.
_CHECK_SECONDS: Final = 0.2
_LAST_SECONDS: Final = 1.0
# Timeout of the optional calls of a job.
_OPTIONAL_SECONDS: Final = 1.0
_NO_THREAD: Final = ("pthread_create", "EAGAIN")


class CardLostError(Exception):
    """The card is lost or needs a reset: no further call can return anything about it."""


class DriverGoneError(Exception):
    """The whole driver is gone: only opening it again can help."""


class AbandonedError(Exception):
    """The job was abandoned: it must not make further calls."""


class Calls:
    """Caller of the driver for one card (or none), which collects the errors.

    ``running`` is the name of the current call. ``answers`` counts the calls that returned a value, without errors
    that have a meaning. ``optional_since`` (time.monotonic) is when optional calls began. Calls named in ``given_up``
    are not made. Once ``abandoned`` is set, no further call is made.
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

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return the call's result, or record the error and return ``None``. Raises as :meth:`call_with`."""
        return self.call_with(_NO_MEANINGS, function, *args, **kwargs)

    def call_with(
        self, meanings: Mapping[int, T | None], function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Return the call's result, or the value of ``meanings`` for the error code, which then is not an error.

        Record any other error in ``errors`` and return ``None``. Raises CardLostError and DriverGoneError, and
        AbandonedError if the job was abandoned.
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
                if error_code(error) != Code.INSUFFICIENT_SIZE:
                    raise
                # nvidia-ml-py reads the size first. Entries were added in between; a second call has room for them.
                answer = function(*args, **kwargs)
        except self.driver.NVMLError as error:
            code = error_code(error)
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
        """Record an error of a call that failed or returned an invalid value."""
        self.errors.append(ReadError(call=call, code=code, uuid=self.uuid))


class Job:
    """Work for a thread of an executor; ``calls`` has its progress and errors.

    ``hung`` is whether its deadline passed: it is not waited for again, and its result is discarded.
    """

    def __init__(self, calls: Calls, work: Callable[[], None]) -> None:
        self.calls = calls
        self.hung = False
        self._work = [work]
        self._ended = threading.Event()

    def run(self) -> None:
        """Do the work once, unless cancelled. Any exception is recorded as an error of the last call."""
        try:
            work = self._work.pop()  # so that an idle thread has no reference to finished work
        except IndexError:  # cancelled
            return
        try:
            work()
        except Exception as error:  # noqa: BLE001 - no exception may end the sampling of a card
            self.calls.note(self.calls.running, type(error).__name__)
        self._ended.set()

    def cancel(self) -> bool:
        """Cancel a job that has not started; return whether it was cancelled."""
        try:
            self._work.pop()
        except IndexError:
            return False
        self._ended.set()
        return True

    @property
    def done(self) -> bool:
        """Whether the work returned or was cancelled."""
        return self._ended.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds``; return whether the job is done."""
        return self._ended.wait(seconds)

    def no_answer(self) -> ReadError:
        """Return the error for a job that is not done."""
        return ReadError(call=self.calls.running or _NO_THREAD[0], code=NO_ANSWER, uuid=self.calls.uuid)


class _Threads:
    """State that the threads share. They do not refer to the executor, so they end when it is collected."""

    def __init__(self) -> None:
        self.inbox: SimpleQueue[Job | None] = SimpleQueue()
        self.count = self.idle = 0
        self._is_closed = False
        self._lock = threading.Lock()

    def add(self) -> None:
        """Start a thread, unless one is idle. Raises RuntimeError if the host cannot create it."""
        if not self.idle:
            threading.Thread(target=self._run, name="nvml", daemon=True).start()
            with self._lock:
                self.count += 1

    def close(self) -> None:
        """End each thread, at once or after its current job."""
        self._is_closed = True
        self.inbox.put(None)

    def _run(self) -> None:
        while True:
            with self._lock:
                if self.idle or self._is_closed:
                    self.count -= 1
                    return
                self.idle += 1
            if (job := self.inbox.get()) is None:
                return
            with self._lock:
                self.idle -= 1
            job.run()
            del job


class Executor:
    """Executor of jobs in daemon threads: one thread while jobs are fast; jobs behind a slow one get another.

    Use it from one thread only. The threads end when it is closed or collected. concurrent.futures does not fit,
    because it joins its threads at exit, where a hanging call would block.
    """

    def __init__(self, stopping: Callable[[], bool]) -> None:
        self._stopping = stopping
        self._threads = _Threads()
        self._hung: list[Job] = []
        self.close = weakref.finalize(self, self._threads.close)
        self.close.atexit = False  # an instrumented program makes its last reading while it exits

    def run(self, jobs: Sequence[Job], until: float) -> None:
        """Start jobs and :meth:`wait` for them. If no thread can be created, they end with that error."""
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
        """Wait until each job is done or its time is over, until ``until`` (time.monotonic) at the latest.

        Once ``stopping`` returns true, wait for one more second at most.
        """
        is_stopping = False
        # One thread runs them in order, so waiting for the last one first wakes up once.
        for job in reversed(jobs):
            while not job.done:
                since = job.calls.optional_since  # set when the job gets there
                left = (until if since is None else min(until, since + _OPTIONAL_SECONDS)) - time.monotonic()
                if left <= 0:
                    break
                is_waiting = not self._threads.inbox.empty()
                if job.wait(min(left, _SLOW_SECONDS if is_waiting else _CHECK_SECONDS)):
                    break
                if not self._threads.inbox.empty():
                    with contextlib.suppress(RuntimeError):  # the existing threads continue
                        self._threads.add()
                if not is_stopping and self._stopping():
                    is_stopping = True
                    until = min(until, time.monotonic() + _LAST_SECONDS)

    def give_up(self, job: Job) -> None:
        """Cancel a job that has not started; treat the thread of a running one as lost until the job is done."""
        if not job.cancel():
            job.hung = True
            self._hung.append(job)


class GivenUp:
    """Disabled optional calls of one card: those that have not returned, were late three times, or are refused."""

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self._late: dict[str, list[Job]] = {}
        self._refused: dict[str, ReadError] = {}

    def abandon(self, job: Job) -> None:
        """Disable the call that a job is blocked in, and abandon the job."""
        job.calls.abandoned = True
        self._late.setdefault(job.calls.running, []).append(job)

    def refuse(self, error: ReadError) -> None:
        """Disable a call for which the driver denies permission, which does not change by itself."""
        self._refused[error.call] = error

    def forget(self) -> None:
        """Enable all calls again, because the driver was reopened."""
        self._late.clear()
        self._refused.clear()

    @property
    def calls(self) -> frozenset[str]:
        """Names of the calls that are disabled now."""
        return frozenset(error.call for error in self.errors())

    def errors(self) -> list[ReadError]:
        """Return the error of each disabled call, for every reading."""
        late = [
            ReadError(call=call, code=NO_ANSWER, uuid=self._uuid)
            for call, jobs in sorted(self._late.items())
            if len(jobs) >= _MOST_LATE or not all(job.done for job in jobs)
        ]
        return [*late, *self._refused.values()]
