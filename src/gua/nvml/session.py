"""The driver as a whole: opened, counted and released in a thread of its own, as these calls may hang too."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gua.core.tick import ReadError
from gua.nvml.calls import Calls, CardLostError, DriverGoneError
from gua.nvml.driver import Driver, code_name, code_of
from gua.nvml.gpm import Gpm
from gua.nvml.workers import Ticket, Workers


class DriverSession:
    """Opens the driver and tells how many cards it has; times to wait ``until`` are those of time.monotonic.

    ``usable`` is whether it is open and was not found gone, ``version`` the driver's, ``failure`` the last call
    that failed, with ``code`` as NVML's number of it (``None``: it has not come back).
    """

    def __init__(self, driver: Driver, workers: Workers) -> None:
        self._driver = driver
        self._workers = workers
        self._lane = workers.lane()
        self._held = False
        self._late: Callable[[], None] | None = None
        self.usable = False
        self.version: str | None = None
        self.failure: ReadError | None = None
        self.code: int | None = None

    def start(self, until: float, gpms: Iterable[Gpm]) -> bool:
        """Open the driver, after releasing it if it was open; return whether it is usable at ``until``.

        An answer that comes later counts from :meth:`settle` on. ``gpms`` are freed before the release.
        """
        if self._busy(until):
            return False
        self.usable = False
        release, self._held = self._held, False
        calls = Calls(self._driver)
        version: list[str | None] = []
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
                version.append(calls.ask(self._driver.nvmlSystemGetDriverVersion))
            except (CardLostError, DriverGoneError):
                version.append(None)

        def after() -> None:
            if version:
                self._held = self.usable = True
                self.version = version[0] or self.version
                self.failure = calls.errors[0] if calls.errors else None
            else:
                self._fail("nvmlInit", failed[0] if failed else 999)

        self._do(Ticket(calls, work), after, until)
        return self.usable

    def count(self, until: float) -> int | None:
        """Return the number of cards, ``None`` if it could not be had: then ``failure`` says why.

        Any error of this call means that the driver is not usable; one that only hangs may still be.
        """
        if self._busy(until):
            return None
        counts: list[int] = []
        failed: list[int] = []

        def work() -> None:
            calls.running = "nvmlDeviceGetCount"
            try:
                counts.append(self._driver.nvmlDeviceGetCount())
            except self._driver.NVMLError as error:
                failed.append(code_of(error))

        def after() -> None:
            if failed:
                self._fail("nvmlDeviceGetCount", failed[0])

        calls = Calls(self._driver)
        self._do(Ticket(calls, work), after, until)
        return counts[0] if counts else None

    def gone(self, failure: ReadError) -> None:
        """Take a card's word for it that the driver is gone."""
        self.usable = False
        self.failure = failure

    def settle(self, until: float) -> None:
        """Wait for a call that is under way, and take over what it did."""
        self._busy(until)

    def _poll(self) -> None:
        if self._late is not None and not self._lane.busy:
            late, self._late = self._late, None
            late()

    def close(self, until: float, gpms: Iterable[Gpm]) -> None:
        """Release the driver, unless it does not answer; then the end of the process does."""
        if not self._busy(until) and self._held:
            calls = Calls(self._driver)
            self._do(Ticket(calls, lambda: self._release(calls, gpms)), lambda: None, until)
        self.usable = self._held = False

    def _release(self, calls: Calls, gpms: Iterable[Gpm]) -> None:
        try:
            for gpm in gpms:
                gpm.keep(self._driver, calls, ())
            calls.running = "nvmlShutdown"
            self._driver.nvmlShutdown()
        except (self._driver.NVMLError, CardLostError, DriverGoneError):
            # A driver that is gone cannot be released, and needs not.
            return

    def _busy(self, until: float) -> bool:
        """Wait for the call under way, if it was not waited for in vain before; return whether it is still there."""
        ticket = self._lane.ticket
        if ticket is not None and self._lane.busy:
            if not ticket.hung:
                self._workers.wait([ticket], until)
            if self._lane.busy:
                ticket.hung = True
                self.failure, self.code = ticket.no_answer(), None
                return True
        self._poll()
        return False

    def _do(self, ticket: Ticket, after: Callable[[], None], until: float) -> None:
        self._late = after
        self._lane.submit(ticket)
        self._workers.wait([ticket], until)
        if self._lane.busy:
            self.failure, self.code = ticket.no_answer(), None
        else:
            self._poll()

    def _fail(self, call: str, code: int) -> None:
        self.usable = False
        self.failure = ReadError(call=call, code=code_name(code))
        self.code = code
