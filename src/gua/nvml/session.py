"""Driver-wide calls (open, count, release), each in its own job because it may hang."""

import contextlib
from collections.abc import Callable, Iterable
from typing import TypeVar

from gua.core.tick import ReadError
from gua.nvml.calls import Calls, CardLostError, DriverGoneError, Executor, Job
from gua.nvml.driver import Code, Driver, code_name, error_code
from gua.nvml.gpm import Gpm

T = TypeVar("T")


class DriverSession:
    """Session with the driver: opens it and counts its cards. Deadlines ``until`` are times of time.monotonic.

    ``is_open`` is whether it must be released, ``usable`` whether it also works, ``version`` the driver's version.
    ``failure`` is the last failed call, ``code`` its NVML return code, ``None`` while the call has not returned.
    """

    def __init__(self, driver: Driver, executor: Executor, *, is_open: bool = False) -> None:
        self._driver = driver
        self._executor = executor
        self._job: Job | None = None
        self.is_open = is_open
        self._when_done: Callable[[], None] | None = None
        self.usable = False
        self.version: str | None = None
        self.failure: ReadError | None = None
        self.code: int | None = None

    def start(self, until: float, gpms: Iterable[Gpm]) -> bool:
        """Open the driver, after releasing it if it was open; return whether it is usable at ``until``.

        A later result is processed by :meth:`settle`. ``gpms`` are freed before the release.
        """
        if not self.settle(until):
            return False
        self.usable = False
        release, self.is_open = self.is_open, False
        calls = Calls(self._driver)

        def work() -> str | None:
            if release:
                self._release(calls, gpms)
            calls.running = "nvmlInit"
            self._driver.nvmlInit()
            with contextlib.suppress(CardLostError, DriverGoneError):
                return calls.call(self._driver.nvmlSystemGetDriverVersion)
            return None

        def opened(version: str | None) -> None:
            self.is_open = self.usable = True
            self.version = version or self.version
            self.failure = calls.errors[0] if calls.errors else None

        self._do("nvmlInit", calls, work, opened, until)
        return self.usable

    def count(self, until: float) -> int | None:
        """Return the number of cards, ``None`` if it could not be read; ``failure`` then has the reason.

        Any error of this call means that the driver is not usable. A hanging call does not.
        """
        if not self.settle(until):
            return None
        counts: list[int] = []
        calls = Calls(self._driver)
        self._do("nvmlDeviceGetCount", calls, self._driver.nvmlDeviceGetCount, counts.append, until)
        return counts[0] if counts else None

    def gone(self, failure: ReadError) -> None:
        """Record that a card's call failed because the driver is gone."""
        self.usable = False
        self.failure = failure

    def settle(self, until: float) -> bool:
        """Wait for the running call, unless it already hung; return whether no call is running afterwards."""
        job = self._job
        if job is not None and not job.done:
            if not job.hung:
                self._executor.wait([job], until)
            if not job.done:
                self.failure, self.code = job.no_answer(), None
                self._executor.give_up(job)
                return False
        when_done, self._when_done = self._when_done, None
        if when_done is not None:
            when_done()
        return True

    def release(self, until: float, gpms: Iterable[Gpm]) -> None:
        """Release the driver. If it does not respond by ``until``, process exit releases it."""
        if self.settle(until) and self.is_open:
            calls = Calls(self._driver)
            self._do("nvmlShutdown", calls, lambda: self._release(calls, gpms), lambda _: None, until)
        self.usable = self.is_open = False

    def _release(self, calls: Calls, gpms: Iterable[Gpm]) -> None:
        # A driver that is gone cannot be released and does not need to be.
        with contextlib.suppress(self._driver.NVMLError, CardLostError, DriverGoneError):
            for gpm in gpms:
                gpm.free_absent(calls, ())
            calls.running = "nvmlShutdown"
            self._driver.nvmlShutdown()

    def _do(self, call: str, calls: Calls, work: Callable[[], T], when_done: Callable[[T], None], until: float) -> None:
        """Run ``work``, whose NVML errors are ``call``'s; ``when_done`` gets the result, now or at :meth:`settle`."""
        results: list[T] = []
        codes: list[int] = []

        def run() -> None:
            calls.running = call
            try:
                results.append(work())
            except self._driver.NVMLError as error:
                codes.append(error_code(error))

        def settle() -> None:
            if results:
                when_done(results[0])
            elif codes or not self.usable:
                self.usable = False
                self.code = codes[0] if codes else Code.UNKNOWN
                self.failure = ReadError(call=call, code=code_name(self.code))

        self._job, self._when_done = Job(calls, run), settle
        self._executor.run([self._job], until)
        if self._job.done:
            self.settle(until)
        else:
            self.failure, self.code = self._job.no_answer(), None
