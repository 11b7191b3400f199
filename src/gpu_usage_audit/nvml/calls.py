"""Calls to the driver that may fail one by one: what failed is kept, what is left goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, ParamSpec, TypeVar

from gpu_usage_audit.core.tick import ReadError
from gpu_usage_audit.nvml.driver import GPU_IS_LOST, RESET_REQUIRED, Driver, code_name, code_of

P = ParamSpec("P")
T = TypeVar("T")

LOST: Final = frozenset({GPU_IS_LOST, RESET_REQUIRED})


class CardLostError(Exception):
    """The card is gone or needs a reset: no further call can tell anything about it."""


class Calls:
    """Asks the driver about one card (or about none) and collects what failed."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.uuid: str | None = None
        self.errors: list[ReadError] = []

    def ask(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return the answer, or ``None`` and remember the error. Raises CardLostError."""
        return self.ask_with({}, function, *args, **kwargs)

    def ask_with(
        self, meanings: Mapping[int, T | None], function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Return the answer, or what ``meanings`` says of the error code, which then is no error.

        Any other error is remembered and gives ``None``. Raises CardLostError.
        """
        try:
            return function(*args, **kwargs)
        except self._driver.NVMLError as error:
            code = code_of(error)
            if code in meanings:
                return meanings[code]
            self.note(function.__name__, code_name(code))
            if code in LOST:
                raise CardLostError from error
            return None

    def note(self, call: str, code: str) -> None:
        """Remember that a call failed, or that its answer cannot be true."""
        self.errors.append(ReadError(call=call, code=code, uuid=self.uuid))
