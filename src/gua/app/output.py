"""What every command prints the same way: lines, errors on one line, text of unknown origin made harmless."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from typing import Final

from gua.core.plaintext import safe

__all__ = ["open_standard_streams", "print_error", "safe", "say", "silence_stdout"]


_STDOUT: Final = 1
_STDERR: Final = 2
_LONGEST: Final = 4000  # columns: names in a message may be of any length


def print_error(message: str, hints: Iterable[str] = ()) -> None:
    """Print ``gua: <message>`` to stderr, and a line each hint, without control and BiDi characters."""
    with contextlib.suppress(OSError):
        for line in (f"gua: {safe(message, _LONGEST)}", *(safe(hint, _LONGEST) for hint in hints)):
            print(line, file=sys.stderr, flush=True)


def say(line: str, *, to_stderr: bool = False) -> None:
    """Print one line at once, to stdout or to stderr."""
    print(line, file=sys.stderr if to_stderr else sys.stdout, flush=True)


def open_standard_streams() -> None:
    """Let streams that the caller closed (``>&-``) lead to nothing: else the next file opened takes their place."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(descriptor)
    if sys.stdout is None:
        sys.stdout = open(_STDOUT, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - open to the end
    if sys.stderr is None:
        sys.stderr = open(_STDERR, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - open to the end


def silence_stdout() -> None:
    """Point stdout at nothing once nobody reads it, so that the flush at exit cannot fail again."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
