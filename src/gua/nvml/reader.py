"""The host's NVIDIA cards through NVML: :class:`gua.core.ports.CardReader`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
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
# How long a drain holds up the loop for a card that is slow; what is not done by then goes on beside it.
_DRAIN_SECONDS: Final = 1.0
# Twice: for the calls under way, and for the release itself.
_CLOSE_SECONDS: Final = 0.4
# How long a driver that failed, or that lost a card, is left alone: doubling from the first to the longest.
_FIRST_BACKOFF_MS: Final = 1000
_LONGEST_BACKOFF_MS: Final = 300_000


class NvmlReader:
    """Reads every card; one that fails or hangs does not hide the others, nor delay them.

    Cards are read in threads, one after the other and, once one is slow, beside each other. A reading waits
    ``call_limit_seconds`` for all of them together. Without persistence mode a card's first call takes seconds,
    so that the first reading waits ``start_limit_seconds`` for the driver, and as long for the cards. A card that
    has not answered by then is unknown, with the call that hangs as NO_ANSWER, at every reading until the
    call returns; its late answer is discarded.

    Once ``stopping`` returns true, as the program is to stop, no call is waited for longer than a second.

    ``with_activity``: the performance counters of cards that have some (GPM) are read, too.

    Opens the driver at the first reading, and anew after it failed as a whole (at once, then with growing
    waits) or lost a card (only that finds it again). To be used from one thread.
    """

    def __init__(  # noqa: PLR0913 - by keyword only, after what it reads
        self,
        clock: Clock,
        driver: Driver | None = None,
        *,
        call_limit_seconds: float = 5.0,
        start_limit_seconds: float = 30.0,
        stopping: Callable[[], bool] = lambda: False,
        with_activity: bool = False,
    ) -> None:
        self._clock = clock
        self._driver = load() if driver is None else driver
        self._call_limit_seconds = call_limit_seconds
        self._start_limit_seconds = start_limit_seconds
        self._stopping = stopping
        self._with_activity = with_activity
        self._backoff = _Backoff(clock)
        self._executor, self._session, self._slots = self._closed()
        self._seen = False

    def read(self) -> tuple[Sequence[RawCard], Sequence[ReadError]]:
        """Return each card once, MIG instances after their parent, and what failed.

        A card that was read before is there even if it cannot be read now: failed if it is lost, else unknown.
        Raises UnavailableError, with what to do, if no card could be read since the driver was opened first.
        """
        until = time.monotonic() + self._call_limit_seconds
        errors: list[ReadError] = []
        read_cards: ReadCards = {}
        complete = self._ready(until, errors) and self._look(until, errors, read_cards)
        if not complete and self._seen and not self._session.usable and self._backoff.due:
            # A driver that was reloaded in between is there again at once, and nothing of this reading is lost.
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
        """Take what the rings of the cards hold; also open the driver anew if that is due."""
        until = time.monotonic() + min(_DRAIN_SECONDS, self._call_limit_seconds)
        self._session.settle(until)
        if self._session.usable:
            if not (self._slots.lost and self._backoff.due) or self._ready(until, []):
                self._slots.drain(until)
        elif self._seen and self._backoff.due:
            self._ready(until, [])

    def close(self) -> None:
        """Release the driver within a second, whatever hangs; a later reading opens it again."""
        self._slots.wait(time.monotonic() + _CLOSE_SECONDS)
        if self._slots.idle:
            self._session.release(time.monotonic() + _CLOSE_SECONDS, self._slots.take_gpms())
        # Else a thread is inside the driver, which may not be released under it: the end of the process does it.
        self._executor.close()
        self._executor, self._session, self._slots = self._closed()
        self._backoff.good()
        self._seen = False

    def _closed(self) -> tuple[Executor, DriverSession, Slots]:
        executor = Executor(self._stopping)
        slots = Slots(self._driver, self._clock, executor, with_activity=self._with_activity)
        return executor, DriverSession(self._driver, executor), slots

    def _ready(self, until: float, errors: list[ReadError]) -> bool:
        """Return whether the driver is usable, after opening it where that is due."""
        self._session.settle(self._half())
        again = self._slots.lost and self._backoff.due and self._slots.idle
        if self._session.usable and not again:
            return True
        if self._seen:
            # The driver may not be released while a thread is inside it.
            if not self._backoff.due or not self._slots.idle:
                self._tell(errors)
                return False
            self._backoff.failed()
        else:
            until = time.monotonic() + self._start_limit_seconds
        self._slots.forget_handles()
        usable = self._session.start(until, self._slots.take_gpms())
        self._tell(errors)
        return usable

    def _look(self, until: float, errors: list[ReadError], read_cards: ReadCards) -> bool:
        """Read the cards into ``read_cards``; return whether the driver said which there are, and is still there."""
        if not self._seen:
            until = time.monotonic() + self._start_limit_seconds
        count = self._session.count(self._half())
        if count is not None:
            self._slots.resize(count)
        else:
            self._tell(errors)
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
        """Return until when to wait for the driver as a whole, so that the cards have time left."""
        return time.monotonic() + self._call_limit_seconds / 2

    def _tell(self, errors: list[ReadError]) -> None:
        if self._session.failure is not None:
            errors.append(self._session.failure)

    def _refuse(self, errors: Sequence[ReadError]) -> NoReturn:
        """Raise the one line that says why there is no card, and what to do."""
        failure, code = self._session.failure, self._session.code
        if errors and errors[0].code == "no card":
            msg = "the NVIDIA driver lists no card: check nvidia-smi -L, and that this process may open /dev/nvidia*"
        elif self._session.usable and errors:
            msg = f"none of the cards can be read ({errors[0].call}: {errors[0].code}): check nvidia-smi"
        else:
            name = "UNKNOWN" if failure is None else failure.code
            remedy = _REMEDIES.get(code or 0, "check that nvidia-smi works here")
            msg = f"cannot read the GPUs (NVML {name}): {remedy}"
        self.close()
        raise UnavailableError(msg)


class _Backoff:
    """When the next try is due, on the monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wait_ms = 0
        self._due_ms = 0

    @property
    def due(self) -> bool:
        """Whether the next try may be made now; the first one may."""
        return self._clock.monotonic_ms() >= self._due_ms

    @property
    def running(self) -> bool:
        """Whether something failed and has not been good since."""
        return self._wait_ms > 0

    def failed(self) -> None:
        """Count a failure: the next try is due after twice the wait of before."""
        self._wait_ms = min(_LONGEST_BACKOFF_MS, self._wait_ms * 2 or _FIRST_BACKOFF_MS)
        self._due_ms = self._clock.monotonic_ms() + self._wait_ms

    def good(self) -> None:
        """Forget the failures."""
        self._wait_ms = 0
        self._due_ms = 0
