"""Calls to the driver that may fail one by one: what failed is kept, what is left goes on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, ParamSpec, TypeVar

from gua.core.tick import NO_ANSWER, ReadError
from gua.nvml.driver import Code, Driver, code_name, code_of

_NO_MEANINGS: Final[Mapping[int, None]] = {}
P = ParamSpec("P")
T = TypeVar("T")

LOST: Final = frozenset({Code.GPU_IS_LOST, Code.RESET_REQUIRED})
GONE: Final = frozenset({Code.UNINITIALIZED, Code.DRIVER_NOT_LOADED, Code.LIB_RM_VERSION_MISMATCH})


class CardLostError(Exception):
    """The card is gone or needs a reset: no further call can tell anything about it."""


class DriverGoneError(Exception):
    """The driver is gone as a whole: only opening it anew can help."""


class LeftAloneError(Exception):
    """Nobody waits for these calls any more, nor wants their answers."""


class Calls:
    """Asks the driver about one card (or about none) and collects what failed.

    ``running`` names the call that is under way, for whoever waits for one that does not come back. ``answers``
    counts what came back with an answer; an error that has a meaning is none. ``spare_since`` is from when on
    (time.monotonic) only calls are made that the card can do without; the ones ``given_up`` are not made. Once
    ``left_alone`` is set, the call under way is the last.
    """

    def __init__(self, driver: Driver, uuid: str | None = None) -> None:
        self._driver = driver
        self.uuid = uuid
        self.errors: list[ReadError] = []
        self.running = ""
        self.answers = 0
        self.spare_since: float | None = None
        self.given_up: Collection[str] = ()
        self.left_alone = False

    def ask(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return the answer, or ``None`` and remember the error. Raises as :meth:`ask_with`."""
        return self.ask_with(_NO_MEANINGS, function, *args, **kwargs)

    def ask_with(
        self, meanings: Mapping[int, T | None], function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Return the answer, or what ``meanings`` says of the error code, which then is no error.

        Any other error is remembered and gives ``None``. Raises CardLostError and DriverGoneError, and LeftAloneError
        where nobody waits for the answer.
        """
        if self.left_alone:
            raise LeftAloneError
        if function.__name__ in self.given_up:
            self.note(function.__name__, NO_ANSWER)
            return None
        self.running = function.__name__
        try:
            try:
                answer = function(*args, **kwargs)
            except self._driver.NVMLError as error:
                if code_of(error) != Code.INSUFFICIENT_SIZE:
                    raise
                # nvidia-ml-py asks for the size first; more came in between, which a second try has room for.
                answer = function(*args, **kwargs)
        except self._driver.NVMLError as error:
            code = code_of(error)
            if code in meanings:
                return meanings[code]
            self.note(function.__name__, code_name(code))
            if code in LOST:
                raise CardLostError from error
            if code in GONE:
                raise DriverGoneError from error
            return None
        except UnicodeDecodeError:
            self.note(function.__name__, "text that is not UTF-8")
            return None
        self.answers += 1
        return answer

    def note(self, call: str, code: str) -> None:
        """Remember that a call failed, or that its answer cannot be true."""
        self.errors.append(ReadError(call=call, code=code, uuid=self.uuid))
