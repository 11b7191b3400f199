"""The one tree of errors that users see: what was tried, on what, and what to do next.

The command line prints the message in one line and exits with ``exit_code``
(2 wrong usage, 3 cannot, 4 data refused; of commands that reserve cards also 69, 75 and 77).
"""

from __future__ import annotations


class GuaError(Exception):
    """Anything that stops a command for a reason its user can act on.

    ``hints`` are further lines: what else to type.
    """

    exit_code = 3

    def __init__(self, message: str = "", *, hints: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.hints = hints


class UsageError(GuaError):
    """A value that the user gave cannot be understood."""

    exit_code = 2


class UnavailableError(GuaError):
    """Something needed is not there: no driver, no store, no server, no permission."""


class TransientError(UnavailableError):
    """The same call may work later: a server that is down or busy.

    ``retry_after_seconds`` is how long the server asked to be left alone, ``None`` if it did not.
    """

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class NotNowError(GuaError):
    """What was asked for cannot be had now; EX_TEMPFAIL of sysexits.h."""

    exit_code = 75


class NotYoursError(GuaError):
    """It belongs to somebody else; EX_NOPERM of sysexits.h."""

    exit_code = 77


class NothingRecordedError(UnavailableError):
    """There is no tick to report on."""


class DataError(GuaError):
    """Data that would make the numbers wrong; it was refused whole and nothing was kept of it."""

    exit_code = 4
