"""Directory of an embedded store: its lock, and the version of the engine that wrote it.

<path>/gua-store.json   the stamp: marks a store, with the engine version that wrote it
<path>/lock             locked by the one process that has the engine open
<path>/data/            the engine's own files
"""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from gua.core.errors import TransientError, UnavailableError
from gua.state.directory import replace_private
from gua.store.engine import version_number

PATIENCE_SECONDS = 60.0
_SILENT_SECONDS = 1.0
BATCH_PREFIX = "batch-"
_STAMP = "gua-store.json"


def ignore(*_: object) -> None:
    """Ignore the call: the default of callbacks."""


class StoreDirectory:
    """A store's directory, locked by this process from ``hold`` to ``release``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = path / "data"
        self._lock: int | None = None

    def exists(self) -> bool:
        """Return whether a store was created here. Opening it completes an interrupted creation."""
        return (self.path / _STAMP).exists()

    def hold(
        self,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        warn: Callable[[str], None] = ignore,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Create the directory if needed and lock it: the engine allows one process at a time, readers included.

        ``warn`` receives one message with the lock's owner after a second. Raises UnavailableError if the directory
        cannot be used, TransientError if it is still locked after ``patience_seconds``.
        """
        try:
            self._make()
            # O_NOFOLLOW: a symlink's target would be truncated, and the directory may belong to another user.
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise UnavailableError(
                f"the store {self.path} cannot be used ({error.strerror}): give a directory you may write, with --store"
            ) from None
        began = monotonic()
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waited = monotonic() - began
                in_use = f"the store {self.path} is in use by {_holder(lock)}"
                if waited >= patience_seconds:
                    os.close(lock)
                    raise TransientError(f"{in_use}, after {patience_seconds:g} s still: try later") from None
                if waited >= _SILENT_SECONDS:
                    warn(f"{in_use}: waiting for it, {patience_seconds:g} s at most")
                    warn = ignore
                sleep(0.05)
            else:
                break
        for left in self.path.glob(f"{BATCH_PREFIX}*"):  # left by a killed process
            shutil.rmtree(left, ignore_errors=True)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"pid {os.getpid()}".encode(), 0)
        self._lock = lock

    def release(self) -> None:
        """Unlock the directory."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def stamped_engine(self) -> str | None:
        """Return the stamped engine version; ``None`` without a stamp. Raises UnavailableError if it is damaged."""
        try:
            engine = str(json.loads((self.path / _STAMP).read_text("utf-8"))["engine"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            engine = ""
        if len(version_number(engine)) < 2:
            msg = f"{self.path / _STAMP} is damaged: put it back from a copy, or move {self.path} away to begin anew"
            raise UnavailableError(msg)
        return engine

    def stamp(self, engine: str) -> None:
        """Write the engine's version durably, before the engine writes anything."""
        replace_private(self.path / _STAMP, json.dumps({"engine": engine}).encode())

    def _make(self) -> None:
        # Only these files precede the stamp; any other file without a stamp belongs to another program.
        if self.path.exists() and not self.exists():
            names = (entry.name for entry in self.path.iterdir())
            foreign = {name for name in names if name != "lock" and not name.startswith(f"{_STAMP}-")}
            if foreign:
                msg = f"{self.path} holds other files ({min(foreign)}): give an empty or new directory, with --store"
                raise UnavailableError(msg)
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)


def _holder(lock: int) -> str:
    return os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "another process"
