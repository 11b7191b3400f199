"""The scope, and warnings instead of errors."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

from gua.core.errors import GuaError

_VARIABLE: Final = "GUA_INSTRUMENT_SCOPE"
_PREFIX: Final = _VARIABLE.removesuffix("_SCOPE")
_MOST_CAUSES: Final = 64
_warned: Final[set[str]] = set()


class Scope(StrEnum):
    """Cards and processes that a program reports: those it sees and its own, or all of the host."""

    PROCESS = "process"
    HOST = "host"


def warn_once(cause: str, message: str) -> None:
    """Log one warning per cause, of at most 64 causes."""
    if cause not in _warned and len(_warned) < _MOST_CAUSES:
        _warned.add(cause)
        logging.getLogger("gua.instrumentation").warning("gua: %s", message)


@contextmanager
def guarded(undo: Callable[[], object] = bool) -> Iterator[None]:
    """After an error of the block, call ``undo`` and log a warning: the program must not fail because of gua."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - see above
        undo()
        reason = str(error) if isinstance(error, GuaError) else f"unexpected {error!r}"
        warn_once(reason, f"no GPU metrics: {reason}")


def read_scope(option: object) -> Scope:
    """Return the scope of the option, else of GUA_INSTRUMENT_SCOPE, else PROCESS; warn of unknown values."""
    for unknown in sorted(name for name in os.environ if name.startswith(_PREFIX) and name != _VARIABLE):
        warn_once(unknown, f"unknown variable {unknown[:64]!r} is ignored: use {_VARIABLE}")
    name, value = ("scope", option) if option is not None else (_VARIABLE, os.environ.get(_VARIABLE) or "process")
    if value in (*Scope,):
        return Scope(str(value))
    warn_once(f"{name} {value!r}", f"{name} is {str(value)[:64]!r}, not process or host: process is used")
    return Scope.PROCESS
