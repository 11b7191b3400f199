"""Reader of the host's NVIDIA cards through NVML: :class:`gua.core.ports.CardReader`."""

import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, NoReturn

from gua.core.errors import UnavailableError
from gua.core.ports import Clock, RawCard
from gua.core.tick import ReadError
from gua.nvml.calls import Executor
from gua.nvml.driver import Code, Driver, load
from gua.nvml.session import DriverSession
from gua.nvml.slots import ReadCards, Slots

_REMEDIES: Final[dict[int, str]] = {
    Code.LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 is not installed here: install the NVIDIA driver, or start "
    "the container with the NVIDIA runtime (--gpus all)",
    Code.DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded: load it (modprobe nvidia) and check with nvidia-smi",
    Code.NO_PERMISSION: "no permission to open the NVIDIA devices: run gua as a user who may open /dev/nvidiactl",
    Code.LIB_RM_VERSION_MISMATCH: "the NVIDIA library and the loaded kernel module differ in version: reload the "
    "module or restart the host",
}
# Longest time that a drain blocks the loop for slow cards; it then continues in the background.
_DRAIN_SECONDS: Final = 1.0
# Applied twice: to the running calls, and to the release itself.
_CLOSE_SECONDS: Final = 0.4
# Wait before a failed driver, or one with a lost card, is opened again: doubles from the first to the longest.
_FIRST_BACKOFF_MS: Final = 1000
_LONGEST_BACKOFF_MS: Final = 300_000


@dataclass(eq=False)
class NvmlReader:
    """Reader of every card. A card that fails or hangs neither hides nor delays the others.

    Cards are read in threads: one after the other, in parallel once one is slow. A reading waits
    ``call_limit_seconds`` for all of them together. Without persistence mode a card's first call takes seconds.
    The first reading therefore waits ``start_limit_seconds`` for the driver, and as long for the cards.
    An unfinished card is unknown, with the hanging call as NO_ANSWER, at every reading until the call returns.
    Its late result is discarded.

    Once ``stopping`` returns true, no call is waited for longer than a second.

    ``with_activity``: also read performance counters (GPM) of cards that support them.

    ``inherited``: this process was forked while its parent had the driver open. The first reading releases the
    inherited session and opens the driver anew.

    The driver is opened at the first reading, and again after it failed as a whole (at once, then with growing waits).
    It is also opened again after it lost a card, because only that can restore it. Use it from one thread only.
    """

    clock: Clock
    driver: Driver = field(default_factory=load)
    _: KW_ONLY
    call_limit_seconds: float = 5.0
    start_limit_seconds: float = 30.0
    stopping: Callable[[], bool] = lambda: False
    with_activity: bool = False
    inherited: bool = False

    def __post_init__(self) -> None:
        self._backoff = _Backoff(self.clock)
        self._executor, self._session, self._slots = self._closed(is_open=self.inherited)
        self._seen = False

    def read(self) -> tuple[Sequence[RawCard], Sequence[ReadError]]:
        """Return each card once, MIG instances after their parent, and the failed calls.

        A card that was read before is always included: failed if it is lost, unknown if it cannot be read now.
        Raises UnavailableError, with a remedy, if no card could be read since the driver was first opened.
        """
        until = time.monotonic() + self.call_limit_seconds
        errors: list[ReadError] = []
        read_cards: ReadCards = {}
        complete = self._ready(until, errors) and self._look(until, errors, read_cards)
        if not complete and self._seen and not self._session.usable and self._backoff.due:
            # A driver that was reloaded in between may work at once; this reading then loses nothing.
            complete = self._ready(until, errors) and self._look(until, errors, read_cards)
        cards = self._slots.cards(read_cards, complete=complete)
        if not cards and not self._seen:
            self._refuse(errors)
        self._seen = True
        if complete and not self._slots.lost:
            self._backoff.good()
        elif self._slots.lost and not self._backoff.running:
            self._backoff.failed()
        return cards, errors

    def drain(self) -> None:
        """Read the cards' ring buffers; also reopen the driver if its wait is over."""
        until = time.monotonic() + min(_DRAIN_SECONDS, self.call_limit_seconds)
        self._session.settle(until)
        if self._session.usable:
            if not (self._slots.lost and self._backoff.due) or self._ready(until, []):
                self._slots.drain(until)
        elif self._seen and self._backoff.due:
            self._ready(until, [])

    def close(self) -> None:
        """Release the driver within a second, even if calls hang; a later reading opens it again."""
        self._slots.wait(time.monotonic() + _CLOSE_SECONDS)
        if self._slots.idle:
            self._session.release(time.monotonic() + _CLOSE_SECONDS, self._slots.take_gpms())
        # Else a thread is inside the driver, which must not be released meanwhile: process exit releases it.
        self._executor.close()
        self._executor, self._session, self._slots = self._closed()
        self._backoff.good()
        self._seen = False

    @property
    def is_open(self) -> bool:
        """Whether this process has the driver open."""
        return self._session.is_open

    def _closed(self, *, is_open: bool = False) -> tuple[Executor, DriverSession, Slots]:
        executor = Executor(self.stopping)
        slots = Slots(self.driver, self.clock, executor, with_activity=self.with_activity)
        return executor, DriverSession(self.driver, executor, is_open=is_open), slots

    def _ready(self, until: float, errors: list[ReadError]) -> bool:
        """Return whether the driver is usable, after opening it if the wait is over."""
        self._session.settle(self._half())
        again = self._slots.lost and self._backoff.due and self._slots.idle
        if self._session.usable and not again:
            return True
        if self._seen:
            # The driver must not be released while a thread is inside it.
            if not self._backoff.due or not self._slots.idle:
                self._report_failure(errors)
                return False
            self._backoff.failed()
        else:
            until = time.monotonic() + self.start_limit_seconds
        self._slots.forget_handles()
        usable = self._session.start(until, self._slots.take_gpms())
        self._report_failure(errors)
        return usable

    def _look(self, until: float, errors: list[ReadError], read_cards: ReadCards) -> bool:
        """Read the cards into ``read_cards``; return whether the driver listed its cards and still works."""
        if not self._seen:
            until = time.monotonic() + self.start_limit_seconds
        count = self._session.count(self._half())
        if count is not None:
            self._slots.resize(count)
        else:
            self._report_failure(errors)
            if not self._session.usable:
                return False
        if count == 0:
            errors.append(ReadError(call="nvmlDeviceGetCount", code="no card"))
        failed, gone = self._slots.read(self._session.version, read_cards, until)
        errors += failed
        if gone is not None:
            self._session.gone(gone)
        return count is not None and gone is None

    def _half(self) -> float:
        """Return the deadline for driver-wide calls: half the limit, which leaves time for the cards."""
        return time.monotonic() + self.call_limit_seconds / 2

    def _report_failure(self, errors: list[ReadError]) -> None:
        if self._session.failure is not None:
            errors.append(self._session.failure)

    def _refuse(self, errors: Sequence[ReadError]) -> NoReturn:
        """Close unless a call hangs, and raise UnavailableError with the reason and the remedy in one line."""
        failure, code = self._session.failure, self._session.code
        if errors and errors[0].code == "no card":
            msg = "the NVIDIA driver lists no card: check nvidia-smi -L, and that this process may open /dev/nvidia*"
        elif self._session.usable and errors:
            msg = f"none of the cards can be read ({errors[0].call}: {errors[0].code}): check nvidia-smi"
        else:
            name = "UNKNOWN" if failure is None else failure.code
            remedy = _REMEDIES.get(code or 0, "check that nvidia-smi works here")
            msg = f"cannot read the GPUs (NVML {name}): {remedy}"
        if self._slots.idle and self._session.settle(time.monotonic()):  # else each reading would add a hanging thread
            self.close()
        raise UnavailableError(msg)


class _Backoff:
    """Schedule of the next attempt, on the monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wait_ms = 0
        self._due_ms = 0

    @property
    def due(self) -> bool:
        """Whether the next attempt may be made now; true before the first."""
        return self._clock.monotonic_ms() >= self._due_ms

    @property
    def running(self) -> bool:
        """Whether a failure was recorded since the last success."""
        return self._wait_ms > 0

    def failed(self) -> None:
        """Record a failure and double the wait until the next attempt."""
        self._wait_ms = min(_LONGEST_BACKOFF_MS, self._wait_ms * 2 or _FIRST_BACKOFF_MS)
        self._due_ms = self._clock.monotonic_ms() + self._wait_ms

    def good(self) -> None:
        """Reset the wait after a success."""
        self._wait_ms = 0
        self._due_ms = 0
