"""Exception hierarchy for errors that are shown to users. A message names what failed, on what, and what to do next.

The command line prints the message as one line and exits with ``exit_code``: 2 usage error, 3 unavailable,
4 data rejected. Commands that reserve cards also exit with 69, 75 and 77 (sysexits.h).
"""


class GuaError(Exception):
    """Base class: an error that stops a command and that its user can resolve.

    ``hints`` are extra lines for the user, such as commands to try.
    """

    exit_code = 3

    def __init__(self, message: str = "", *, hints: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.hints = hints


class UsageError(GuaError):
    """A value from the user is invalid."""

    exit_code = 2


class UnavailableError(GuaError):
    """A required resource is missing: driver, store, server or permission."""


class TransientError(UnavailableError):
    """A temporary failure: the same call may succeed later, as with a server that is down or busy.

    ``retry_after_seconds`` is the delay that the server requested, ``None`` without one.
    """

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class NotNowError(GuaError):
    """The requested resource is not available now (EX_TEMPFAIL of sysexits.h)."""

    exit_code = 75


class NotYoursError(GuaError):
    """The resource belongs to another user (EX_NOPERM of sysexits.h)."""

    exit_code = 77


class NothingRecordedError(UnavailableError):
    """The store has no tick for the report."""


class DataError(GuaError):
    """Input data that would make results wrong: it was rejected as a whole and nothing was stored."""

    exit_code = 4
