"""An embedded store that is opened in a thread while Python still imports what a command needs of it.

The engine is loaded and starts without holding up Python. What does not go as it mostly does is left to
:func:`gua.store.database.open_store`, which waits, upgrades, and says what is wrong.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gua.core.errors import GuaError
from gua.store.connection import engine_in_utc, imported_engine, started_engine
from gua.store.directory import StoreDirectory
from gua.store.dsn import EmbeddedDsn

if TYPE_CHECKING:
    from collections.abc import Callable


class Ahead:
    """A store that is being opened: its directory is held and its engine started, unless something is in the way."""

    def __init__(self, path: Path) -> None:
        self.directory = StoreDirectory(path)
        self._close: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._open, name="engine", daemon=True)
        self._thread.start()

    def wait(self) -> bool:
        """Return whether it was opened, once that is known."""
        self._thread.join()
        return self._close is not None

    def let_go(self) -> None:
        """Close the engine unless others have it open, too."""
        if self._close is not None:
            self._close()

    def _open(self) -> None:
        with suppress(GuaError, OSError, RuntimeError, MemoryError):
            self.directory.hold(patience_seconds=0)
            try:
                if self.directory.stamped_engine() == imported_engine():
                    self._close = started_engine(EmbeddedDsn(path=self.directory.path), self.directory.data)
            finally:
                if self._close is None:
                    self.directory.release()


_begun: list[Ahead] = []


def begin(path: Path) -> None:
    """Begin to open the embedded store at ``path``, if there is one. Once a process, before it has other threads."""
    if StoreDirectory(path).exists():
        engine_in_utc()
        _begun.append(Ahead(path))


def taken(path: Path) -> Ahead | None:
    """Return the store at ``path`` as it was opened ahead, ``None`` where that was not begun, or not done."""
    while _begun:
        opened = _begun.pop()
        if opened.wait():
            if opened.directory.path == path:
                return opened
            opened.let_go()
            opened.directory.release()
    return None
