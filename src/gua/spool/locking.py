"""Lock file beside the spool: shared by writers (SQLite orders them), exclusive while the spool is replaced."""

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
    """Lock the spool at ``path`` against replacement. Raises TransientError if that is impossible for 5 s."""
    return _held(path, fcntl.LOCK_SH)


def replacing(path: Path) -> AbstractContextManager[None]:
    """Lock out writers of the spool at ``path``. Raises TransientError if that is impossible for 5 s."""
    return _held(path, fcntl.LOCK_EX)


@contextmanager
def _held(path: Path, kind: int) -> Iterator[None]:
    # Opened each time: a lock on a removed file has no effect.
    # O_NOFOLLOW and O_NONBLOCK: a planted symlink would create or lock another file, a pipe would block.
    flags = os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(lock_file := _lock_file(path), flags, 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise UnavailableError(f"{lock_file} is a symbolic link, which gua does not follow here: remove it") from None
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


@lru_cache(maxsize=64)  # building a path takes as long as opening the file
def _lock_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")
