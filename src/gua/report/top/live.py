"""``gua top`` on a terminal: asks again when there is news, draws, and does what keys say."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gua.core.errors import GuaError
from gua.core.plaintext import safe
from gua.report.kit.figures import span
from gua.report.kit.style import Style
from gua.report.top.model import Snapshot, aged
from gua.report.top.screen import Screen
from gua.report.top.text import render_top
from gua.report.top.view import TopView, press

Ask = Callable[[], Snapshot]
_REDRAW_SECONDS: Final = 5.0
_ARRIVAL_SECONDS: Final = 0.5
"""How long after a tick is due it is asked for: it must be read and delivered first."""
_END_SECONDS: Final = 10.0


@dataclass
class _Latest:
    """The newest answer, when it came (monotonic), and why the one after it did not."""

    snapshot: Snapshot
    at: float
    failure: str | None = None


class _Asker:
    """Asks in a thread of its own, so that keys work while a store thinks."""

    def __init__(self, ask: Ask, first: Snapshot, wake: Callable[[], None]) -> None:
        self._ask = ask
        self._wake = wake
        self._thread: threading.Thread | None = None
        self._unexpected: BaseException | None = None
        self.latest = _Latest(first, time.monotonic())
        self.asked_at = self.latest.at

    @property
    def is_busy(self) -> bool:
        """Return whether a question is under way. Raises what is no error of ours."""
        if self._unexpected is not None:
            raise self._unexpected
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Ask once more; :meth:`is_busy` is true until that is answered."""
        self.asked_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="top", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait a while for the question under way: an engine in this process must not be left in the middle of it."""
        if self._thread is not None:
            self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        try:
            self.latest = _Latest(self._ask(), time.monotonic())
        except GuaError as error:
            self.latest = _Latest(self.latest.snapshot, self.latest.at, str(error))
        except BaseException as error:  # noqa: BLE001 - raised in the thread that draws
            self._unexpected = error
        self._wake()


def watch(ask: Ask, first: Snapshot, *, view: TopView, interval_seconds: float, style: Callable[[], Style]) -> None:
    """Show a snapshot and those after it until the reader quits or the terminal is gone.

    ``style`` is asked for each picture: the terminal may have another size by then.
    """
    asker: _Asker | None = None
    try:
        with Screen() as screen:
            asker = _Asker(ask, first, screen.wake)
            _loop(screen, asker, view, interval_seconds, style)
    except KeyboardInterrupt:  # the usual way to leave such a screen
        return
    finally:
        if asker is not None:
            asker.finish()


def _loop(screen: Screen, asker: _Asker, view: TopView, interval_seconds: float, style: Callable[[], Style]) -> None:
    while True:
        latest = asker.latest
        wait = _due(latest, asker.asked_at, interval_seconds)
        if wait <= 0 and not view.paused and not asker.is_busy:
            asker.start()
        screen.draw(_drawn(latest, view, style()))
        busy_or_paused = asker.is_busy or view.paused
        pressed = screen.keys(_REDRAW_SECONDS if busy_or_paused else min(max(wait, 0.05), _REDRAW_SECONDS))
        if pressed is None:
            return
        for key in pressed:
            after = press(view, key)
            if after is None:
                return
            view = after


def _due(latest: _Latest, asked_at: float, interval_seconds: float) -> float:
    """Return in how many seconds to ask again: after the interval, and not before there can be news."""
    wait = interval_seconds
    due_ms = latest.snapshot.due_ms
    if latest.failure is None and due_ms is not None:
        wait = max(wait, due_ms / 1000 + _ARRIVAL_SECONDS - (asked_at - latest.at))
    return asked_at + wait - time.monotonic()


def _drawn(latest: _Latest, view: TopView, style: Style) -> list[str]:
    elapsed_seconds = time.monotonic() - latest.at
    note = None
    if latest.failure is not None:
        note = f"no news since {span(elapsed_seconds * 1000)}: {safe(latest.failure)}"
    height = max(shutil.get_terminal_size((80, 24)).lines, 1)
    return render_top(aged(latest.snapshot, round(elapsed_seconds * 1000)), view, style, height=height, note=note)
