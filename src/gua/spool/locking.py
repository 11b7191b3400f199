"""The lock file beside the spool: many may write at a time, as SQLite orders them, but nobody while it is replaced."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final

from gua.core.errors import TransientError, UnavailableError

WAIT_SECONDS: Final = 5.0
_STEP_SECONDS: Final = 0.01


def writing(path: Path) -> AbstractContextManager[None]:
    """Hold the spool at ``path`` in its place. Raises TransientError if it is being replaced for long."""
    return _held(path, fcntl.LOCK_SH)


def replacing(path: Path) -> AbstractContextManager[None]:
    """Keep everybody from writing to the spool at ``path``. Raises TransientError if somebody writes for long."""
    return _held(path, fcntl.LOCK_EX)


@contextmanager
def _held(path: Path, kind: int) -> Iterator[None]:
    # Opened each time: a lock file that somebody removed would keep nobody out.
    descriptor = _opened(_lock_file(path))
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    msg = f"the spool {path} is being repaired by another process: try again when it is done"
                    raise TransientError(msg) from None
                time.sleep(_STEP_SECONDS)
        yield
    finally:
        os.close(descriptor)


@lru_cache(maxsize=64)  # to make a name takes as long as to open the file
def _lock_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _opened(path: Path) -> int:
    # Through a link that somebody planted another file would be made, or locked; a pipe would be waited for.
    flags = os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        msg = f"{path} is a symbolic link, which gua does not follow here: remove it"
        raise UnavailableError(msg) from None
