"""The one tree of errors that users see: what was tried, on what, and what to do next.

The command line prints the message in one line and exits with ``exit_code``
(2 wrong usage, 3 cannot, 4 data refused).
"""

from __future__ import annotations


class GuaError(Exception):
    """Anything that stops a command for a reason its user can act on."""

    exit_code = 3


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


class DataError(GuaError):
    """Data that would make the numbers wrong; it was refused whole and nothing was kept of it."""

    exit_code = 4
