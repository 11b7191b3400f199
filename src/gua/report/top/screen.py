"""The whole terminal for a while: drawn anew without flicker, read key by key, and given back as it was on every exit.

Plain ANSI (ECMA-48) and termios: the alternate screen, the cursor, and input that is not echoed.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from types import FrameType, TracebackType
from typing import Any, Final, NoReturn, Self

_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE: Final = "\x1b[0m\x1b[?25h\x1b[?1049l"
_NAMED: Final = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[5~": "page-up",
    "\x1b[6~": "page-down",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x1b": "escape",
}
_LONGEST_SEQUENCE: Final = 16
_SIGNALLED: Final = 128


class Screen:
    """A context manager that holds the terminal of stdin and stdout.

    SIGTERM and SIGHUP end the program by SystemExit (128 + their number), Ctrl-Z gives the terminal back until the
    program goes on. KeyboardInterrupt is the caller's.
    """

    def __init__(self) -> None:
        self._in = sys.stdin.fileno()
        self._saved: list[Any] = []
        self._handlers: dict[signal.Signals, Any] = {}
        self._drawn: list[str] = []
        self._woken, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        self._saved = termios.tcgetattr(self._in)
        for number, handler in (
            (signal.SIGTERM, self._end),
            (signal.SIGHUP, self._end),
            (signal.SIGTSTP, self._stop),
            (signal.SIGWINCH, self._resized),
        ):
            self._handlers[number] = signal.signal(number, handler)
        try:
            self._take()
        except BaseException:
            self._give_back()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        waker, self._waker = self._waker, -1  # who still wakes must not write into the next file of this number
        os.close(self._woken)
        os.close(waker)

    def wake(self) -> None:
        """Let :meth:`keys` return at once; any thread may call it."""
        with contextlib.suppress(OSError):  # full: it wakes anyway; closed: nobody waits
            os.write(self._waker, b".")

    def keys(self, seconds: float) -> list[str] | None:
        """Wait so long at most, and return the keys that were pressed; ``None`` where the terminal is gone."""
        waiting = select.poll()  # unlike select, of descriptors above 1023 too
        for descriptor in (self._in, self._woken):
            waiting.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in waiting.poll(max(seconds, 0.0) * 1000)}
        if self._woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._woken, 4096)
        if self._in not in ready:
            return []
        try:
            read = os.read(self._in, 4096)
        except OSError:
            return None
        return [*keys_of(read.decode("utf-8", "ignore"))] if read else None

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines from the top; nothing is written where they are there already."""
        if [*lines] == self._drawn:
            return
        self._drawn = [*lines]
        sys.stdout.write("\x1b[H" + "\r\n".join(f"{line}\x1b[K" for line in lines) + "\x1b[J")
        sys.stdout.flush()

    def _take(self) -> None:
        tty.setcbreak(self._in, termios.TCSANOW)
        sys.stdout.write(_ENTER)
        sys.stdout.flush()
        self._drawn = []

    def _give_back(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal may be gone
            sys.stdout.write(_LEAVE)
            sys.stdout.flush()
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._in, termios.TCSADRAIN, self._saved)

    def _end(self, number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(_SIGNALLED + number)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)  # and here it goes on
        self._take()
        self.wake()

    def _resized(self, _number: int, _frame: FrameType | None) -> None:
        self._drawn = []
        self.wake()


def keys_of(text: str) -> Iterator[str]:
    """Yield the keys of what a terminal sent: characters, and names of those that come as a sequence.

    A sequence that has no name here is one key without a meaning.
    """
    while text:
        length = _sequence(text)
        key, text = text[:length], text[length:]
        yield _NAMED.get(key, key if length == 1 else "unknown")


def _sequence(text: str) -> int:
    """Return how many characters at the beginning are one key."""
    if text[0] != "\x1b" or len(text) == 1:
        return 1
    if text[1] not in "[O":
        return 1 if text[1] == "\x1b" else 2
    for place, character in enumerate(text[2:_LONGEST_SEQUENCE], 3):
        if "@" <= character <= "~":
            return place
    return len(text[:_LONGEST_SEQUENCE])
