"""The driver as a whole: opened, counted and released in jobs of its own, as these calls may hang too."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gua.core.tick import ReadError
from gua.nvml.calls import Calls, CardLostError, DriverGoneError, Executor, Job
from gua.nvml.driver import Driver, code_name, code_of
from gua.nvml.gpm import Gpm


class DriverSession:
    """Opens the driver and counts its cards; deadlines ``until`` are times of time.monotonic.

    ``usable`` is whether it is open and was not found gone, ``version`` the driver's, ``failure`` the last call
    that failed, with ``code`` as NVML's number of it (``None``: it has not returned).
    """

    def __init__(self, driver: Driver, executor: Executor) -> None:
        self._driver = driver
        self._executor = executor
        self._job: Job | None = None
        self._is_open = False
        self._when_done: Callable[[], None] | None = None
        self.usable = False
        self.version: str | None = None
        self.failure: ReadError | None = None
        self.code: int | None = None

    def start(self, until: float, gpms: Iterable[Gpm]) -> bool:
        """Open the driver, after releasing it if it was open; return whether it is usable at ``until``.

        An answer that comes later counts from :meth:`settle` on. ``gpms`` are freed before the release.
        """
        if not self.settle(until):
            return False
        self.usable = False
        release, self._is_open = self._is_open, False
        calls = Calls(self._driver)
        versions: list[str | None] = []
        failed: list[int] = []

        def work() -> None:
            if release:
                self._release(calls, gpms)
            calls.running = "nvmlInit"
            try:
                self._driver.nvmlInit()
            except self._driver.NVMLError as error:
                failed.append(code_of(error))
                return
            try:
                versions.append(calls.ask(self._driver.nvmlSystemGetDriverVersion))
            except (CardLostError, DriverGoneError):
                versions.append(None)

        def when_done() -> None:
            if versions:
                self._is_open = self.usable = True
                self.version = versions[0] or self.version
                self.failure = calls.errors[0] if calls.errors else None
            else:
                self._fail("nvmlInit", failed[0] if failed else 999)

        self._do(Job(calls, work), when_done, until)
        return self.usable

    def count(self, until: float) -> int | None:
        """Return the number of cards, ``None`` if it could not be read: then ``failure`` says why.

        Any error of this call means that the driver is not usable; one that only hangs may still be.
        """
        if not self.settle(until):
            return None
        counts: list[int] = []
        failed: list[int] = []

        def work() -> None:
            calls.running = "nvmlDeviceGetCount"
            try:
                counts.append(self._driver.nvmlDeviceGetCount())
            except self._driver.NVMLError as error:
                failed.append(code_of(error))

        def when_done() -> None:
            if failed:
                self._fail("nvmlDeviceGetCount", failed[0])

        calls = Calls(self._driver)
        self._do(Job(calls, work), when_done, until)
        return counts[0] if counts else None

    def gone(self, failure: ReadError) -> None:
        """Note that a card's call found the driver gone."""
        self.usable = False
        self.failure = failure

    def settle(self, until: float) -> bool:
        """Wait for the call under way, unless that was done in vain before; return whether there is none any more."""
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
        """Release the driver, unless it does not answer; then the end of the process does."""
        if self.settle(until) and self._is_open:
            calls = Calls(self._driver)
            self._do(Job(calls, lambda: self._release(calls, gpms)), lambda: None, until)
        self.usable = self._is_open = False

    def _release(self, calls: Calls, gpms: Iterable[Gpm]) -> None:
        try:
            for gpm in gpms:
                gpm.keep(calls, ())
            calls.running = "nvmlShutdown"
            self._driver.nvmlShutdown()
        except (self._driver.NVMLError, CardLostError, DriverGoneError):
            # A driver that is gone cannot be released, and need not be.
            return

    def _do(self, job: Job, when_done: Callable[[], None], until: float) -> None:
        self._job, self._when_done = job, when_done
        self._executor.run([job], until)
        if job.done:
            self.settle(until)
        else:
            self.failure, self.code = job.no_answer(), None

    def _fail(self, call: str, code: int) -> None:
        self.usable = False
        self.failure = ReadError(call=call, code=code_name(code))
        self.code = code
