"""``gua top`` on a terminal: polls for new ticks, renders the screen, and handles keys.

:class:`Screen` uses plain ANSI (ECMA-48) and termios: alternate screen, hidden cursor, input without echo. It redraws
without flicker, and restores the terminal on every exit.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Final, NoReturn, Self

from gua.core.errors import GuaError
from gua.core.plaintext import safe
from gua.report.kit.figures import span
from gua.report.kit.style import Style
from gua.report.questions import in_thread
from gua.report.top.model import Snapshot, TopView, aged, press
from gua.report.top.text import render_top

Query = Callable[[], Snapshot]
_REDRAW_SECONDS: Final = 5.0
_ARRIVAL_SECONDS: Final = 0.5
"""Delay of a query after the next tick's time [s]: the tick must be read and delivered first."""
_END_SECONDS: Final = 10.0
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
# A sequence of at most 16 characters, escape with one character, or a single character.
_KEY: Final = re.compile(r"\x1b[\[O](?:[^@-~]{0,13}[@-~]|[^@-~]{0,14})|\x1b[^\x1b]|.", re.DOTALL)
_SIGNALLED: Final = 128


@dataclass
class _Latest:
    """The newest snapshot, its arrival time (monotonic), and the failure of the query after it."""

    snapshot: Snapshot
    at: float
    failure: str | None = None


class _Poller:
    """Runs each query in a thread, so that keys work while it is slow."""

    def __init__(self, query: Query, first: Snapshot, wake: Callable[[], None]) -> None:
        self._query = query
        self._wake = wake
        self._running: Future[Snapshot] | None = None
        self._latest = _Latest(first, time.monotonic())
        self.queried_at = self._latest.at

    @property
    def is_busy(self) -> bool:
        """Return whether a query is running."""
        return self._running is not None

    @property
    def latest(self) -> _Latest:
        """Return the result of the last query that ended. Raises its error if that is unexpected."""
        if self._running is not None and self._running.done():
            ended, self._running = self._running, None
            try:
                self._latest = _Latest(ended.result(), time.monotonic())
            except GuaError as error:
                self._latest = _Latest(self._latest.snapshot, self._latest.at, str(error))
        return self._latest

    def start(self) -> None:
        """Start a query; :meth:`is_busy` is true until its result is read."""
        self.queried_at = time.monotonic()
        self._running = in_thread(self._query)
        self._running.add_done_callback(lambda _: self._wake())

    def finish(self) -> None:
        """Wait up to 10 s for the running query: exit must not interrupt an engine in this process."""
        if self._running is not None:
            wait([self._running], _END_SECONDS)


def watch(query: Query, first: Snapshot, *, view: TopView, interval_seconds: float, style: Callable[[], Style]) -> None:
    """Show the snapshot and its successors until the user quits or the terminal closes.

    ``style`` is called for each frame, as the terminal may have been resized.
    """
    poller: _Poller | None = None
    try:
        with Screen() as screen:
            poller = _Poller(query, first, screen.wake)
            _loop(screen, poller, view, interval_seconds, style)
    except KeyboardInterrupt:  # Ctrl-C quits
        return
    finally:
        if poller is not None:
            poller.finish()


def _loop(screen: Screen, poller: _Poller, view: TopView, interval_seconds: float, style: Callable[[], Style]) -> None:
    while True:
        latest = poller.latest
        seconds = _due(latest, poller.queried_at, interval_seconds)
        if seconds <= 0 and not view.paused and not poller.is_busy:
            poller.start()
        screen.draw(_drawn(latest, view, style()))
        busy_or_paused = poller.is_busy or view.paused
        pressed = screen.keys(_REDRAW_SECONDS if busy_or_paused else min(max(seconds, 0.05), _REDRAW_SECONDS))
        if pressed is None:
            return
        for key in pressed:
            after = press(view, key)
            if after is None:
                return
            view = after


def _due(latest: _Latest, queried_at: float, interval_seconds: float) -> float:
    """Return the seconds until the next query: after the interval, and not before the next tick can arrive."""
    seconds = interval_seconds
    due_ms = latest.snapshot.due_ms
    if latest.failure is None and due_ms is not None:
        seconds = max(seconds, due_ms / 1000 + _ARRIVAL_SECONDS - (queried_at - latest.at))
    return queried_at + seconds - time.monotonic()


def _drawn(latest: _Latest, view: TopView, style: Style) -> list[str]:
    elapsed_seconds = time.monotonic() - latest.at
    note = None
    if latest.failure is not None:
        note = f"no news since {span(elapsed_seconds * 1000)}: {safe(latest.failure)}"
    height = max(shutil.get_terminal_size((80, 24)).lines, 1)
    return render_top(aged(latest.snapshot, round(elapsed_seconds * 1000)), view, style, height=height, note=note)


class Screen:
    """Context manager that takes over the terminal of stdin and stdout.

    SIGTERM and SIGHUP raise SystemExit (128 + their number). Ctrl-Z restores the terminal until the program continues.
    KeyboardInterrupt is left to the caller.
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
        waker, self._waker = self._waker, -1  # later wakes must not write to a reused descriptor
        os.close(self._woken)
        os.close(waker)

    def wake(self) -> None:
        """Make :meth:`keys` return at once; any thread may call it."""
        with contextlib.suppress(OSError):  # full: it wakes anyway; closed: the screen has ended
            os.write(self._waker, b".")

    def keys(self, seconds: float) -> list[str] | None:
        """Wait up to ``seconds`` for input and return the pressed keys; ``None`` if the terminal is closed."""
        waiting = select.poll()  # unlike select, poll supports descriptors above 1023
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
        """Show the lines from the top; writes nothing if they are unchanged."""
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
        os.kill(os.getpid(), signal.SIGSTOP)  # continues here after SIGCONT
        self._take()
        self.wake()

    def _resized(self, _number: int, _frame: FrameType | None) -> None:
        self._drawn = []
        self.wake()


def keys_of(text: str) -> Iterator[str]:
    """Yield the keys in terminal input: characters, and names for escape sequences.

    An unknown sequence is one key ``unknown``.
    """
    for key in _KEY.findall(text):
        yield _NAMED.get(key, key if len(key) == 1 else "unknown")
