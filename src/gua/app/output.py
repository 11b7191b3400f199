"""Output of all commands: lines, one-line errors, and sanitized text of unknown origin."""

import contextlib
import os
import sys
from collections.abc import Iterable
from typing import Final

from gua.core.plaintext import safe

__all__ = ["open_standard_streams", "print_error", "print_line", "safe", "silence_stdout"]


_STDOUT: Final = 1
_STDERR: Final = 2
_LONGEST: Final = 4000  # columns: names in a message may be of any length


def print_error(message: str, hints: Iterable[str] = ()) -> None:
    """Print ``gua: <message>`` and the hints to stderr, a line each, without control and BiDi characters."""
    with contextlib.suppress(OSError):
        for line in (f"gua: {safe(message, _LONGEST)}", *(safe(hint, _LONGEST) for hint in hints)):
            print(line, file=sys.stderr, flush=True)


def print_line(line: str, *, to_stderr: bool = False) -> None:
    """Print one line to stdout or stderr, and flush."""
    print(line, file=sys.stderr if to_stderr else sys.stdout, flush=True)


def open_standard_streams() -> None:
    """Connect closed standard streams (``>&-``) to /dev/null, as the next opened file would take their descriptors."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(descriptor)
    if sys.stdout is None:
        sys.stdout = open(_STDOUT, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - open until exit
    if sys.stderr is None:
        sys.stderr = open(_STDERR, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - open until exit


def silence_stdout() -> None:
    """Redirect stdout to /dev/null after its reader is gone, so that the flush at exit cannot fail again."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
