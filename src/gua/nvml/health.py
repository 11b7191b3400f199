"""Reasons why a card may be slow or failing: clock reasons at each reading, and its errors once a minute."""

from typing import Any, Final, TypedDict

from gua.core.ports import Clock
from gua.nvml.calls import ABSENT, Calls, CardLostError, DriverGoneError
from gua.nvml.driver import (
    ECC_SINCE_LOAD,
    RECOVERY_ACTION,
    UNCORRECTED_ECC,
    UNSIGNED_INT,
    XID_EVENTS,
    Code,
    EventSet,
    Handle,
    code_name,
)

READ_EVERY_MS: Final = 60_000
RETRY_MS: Final = 3_600_000
"""How long the recovery action is not queried again after a driver did not know it."""
MOST_EVENTS: Final = 64
"""Most events per reading. In a storm the rest is discarded with the event set, and the count is a lower bound."""
# NVML defines eleven reasons; a value with higher bits is invalid.
_MOST_REASONS: Final = 0xFFFF
_MOST_XID: Final = 0xFFFF
_MOST_ERRORS: Final = 0xFFFF_FFFF
_NO_EVENT: Final[dict[int, None]] = {Code.TIMEOUT: None}
# Codes for a field that the driver does not have: drivers before 570 have no recovery action.
_NO_FIELD: Final[dict[int, tuple[Any, ...]]] = dict.fromkeys((*ABSENT, Code.INVALID_ARGUMENT), ())


class HealthValues(TypedDict):
    """Fields of a card's reading; ``None`` is unknown. ``xid`` is ``None`` without an event, too."""

    clock_reasons: int | None
    xid_errors: int | None
    xid: int | None
    ecc_errors: int | None
    row_remap: int | None
    recovery_action: int | None


class Health:
    """Health of one whole card between two readings."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ecc_total: int | None = None
        self.forget()

    def forget(self) -> None:
        """Discard all values and the event set, because the driver was reopened or the card is lost."""
        self._read_ms: int | None = None
        self._reads_reasons = True
        self._recovery_from_ms = 0
        self._events: EventSet | None = None
        self._values = HealthValues(
            clock_reasons=None, xid_errors=None, xid=None, ecc_errors=None, row_remap=None, recovery_action=None
        )

    def read(self, calls: Calls, handle: Handle) -> HealthValues:
        """Return the values since the last reading, each error once. Raises CardLostError and DriverGoneError."""
        now_ms = self._clock.monotonic_ms()
        is_due = self._read_ms is None or now_ms - self._read_ms >= READ_EVERY_MS
        if is_due:
            self._read_ms = now_ms
            self._reads_reasons = True
        reasons = self._read_reasons(calls, handle) if self._reads_reasons else None
        if is_due:
            self._read_events(calls, handle)
            self._read_ecc(calls, handle)
            rows = calls.call_with(ABSENT, calls.driver.nvmlDeviceGetRemappedRows, handle)
            self._values["row_remap"] = None
            if rows is not None:
                pending, failed = int(rows[2]), int(rows[3])
                if {pending, failed} <= {0, 1}:
                    self._values["row_remap"] = pending + 2 * failed
                else:
                    calls.note("nvmlDeviceGetRemappedRows", "neither yes nor no")
            self._read_recovery_action(calls, handle, now_ms)
        return self._take(reasons)

    def read_last_events(self, calls: Calls, handle: Handle) -> None:
        """Read the events of a card that was just lost, which may contain the cause."""
        if self._events is not None:
            try:
                self._read_events(calls, handle)
            except (CardLostError, DriverGoneError):
                return

    def lost(self) -> HealthValues:
        """Return the last values of a lost card, and unknown ones on later calls."""
        last = self._take(None)
        self.forget()
        return last

    def _take(self, reasons: int | None) -> HealthValues:
        """Return the current values, and reset the counts so that each error is returned once."""
        values = self._values.copy()
        values["clock_reasons"] = reasons
        self._values = values.copy()
        self._values["xid"] = None
        self._values["xid_errors"] = None if values["xid_errors"] is None else 0
        self._values["ecc_errors"] = None if values["ecc_errors"] is None else 0
        return values

    def _read_reasons(self, calls: Calls, handle: Handle) -> int | None:
        reasons = calls.call_with(ABSENT, calls.driver.nvmlDeviceGetCurrentClocksEventReasons, handle)
        if reasons is None:  # not supported: try again only with the other values, once a minute
            self._reads_reasons = False
        elif not 0 <= reasons <= _MOST_REASONS:
            calls.note("nvmlDeviceGetCurrentClocksEventReasons", "not a set of reasons")
            return None
        return reasons

    def _read_recovery_action(self, calls: Calls, handle: Handle, now_ms: int) -> None:
        """Set the recovery action, as NVML numbers it; unknown where the driver does not have the field."""
        self._values["recovery_action"] = None
        if now_ms < self._recovery_from_ms:
            return
        values = calls.call_with(_NO_FIELD, calls.driver.nvmlDeviceGetFieldValues, handle, [RECOVERY_ACTION])
        if values is None:
            return
        code = values[0].nvmlReturn if len(values) else Code.NOT_SUPPORTED
        # A driver that ignores the field leaves the zeros of nvidia-ml-py, which would mean that no action is needed.
        if code in _NO_FIELD or (code == 0 and values[0].valueType != UNSIGNED_INT):
            self._recovery_from_ms = now_ms + RETRY_MS
        elif code == 0:
            self._values["recovery_action"] = values[0].value.uiVal
        else:
            calls.note("nvmlDeviceGetFieldValues", code_name(code))

    def _read_events(self, calls: Calls, handle: Handle) -> None:
        """Count the pending XID events; the first call registers for them."""
        self._values["xid_errors"] = None
        if self._events is None:
            events = calls.call_with(ABSENT, calls.driver.nvmlEventSetCreate)
            if events is None:
                return
            self._events, answers = events, calls.answers
            calls.call_with(ABSENT, calls.driver.nvmlDeviceRegisterEvents, handle, XID_EVENTS, events)
            if calls.answers == answers:
                self._drop(calls)
                return
        count = 0
        while count < MOST_EVENTS:
            failed = len(calls.errors)
            event = calls.call_with(_NO_EVENT, calls.driver.nvmlEventSetWait_v2, self._events, 0)
            if event is None:
                if len(calls.errors) > failed:  # the event set no longer works
                    self._drop(calls)
                    return
                break
            count += 1
            self._values["xid"] = event.eventData if 0 < event.eventData <= _MOST_XID else self._values["xid"]
        else:
            self._drop(calls)
        self._values["xid_errors"] = count

    def _drop(self, calls: Calls) -> None:
        events, self._events = self._events, None
        if events is not None:
            calls.call(calls.driver.nvmlEventSetFree, events)

    def _read_ecc(self, calls: Calls, handle: Handle) -> None:
        """Set the number of uncorrected errors since the last reading; unknown at the first, and across a reset."""
        before, self._values["ecc_errors"] = self._ecc_total, None
        total = calls.call_with(
            ABSENT, calls.driver.nvmlDeviceGetTotalEccErrors, handle, UNCORRECTED_ECC, ECC_SINCE_LOAD
        )
        if total is not None and not 0 <= total <= _MOST_ERRORS:
            calls.note("nvmlDeviceGetTotalEccErrors", "not a count")
            total = None
        self._ecc_total = total
        if total is not None and before is not None and total >= before:
            self._values["ecc_errors"] = total - before
