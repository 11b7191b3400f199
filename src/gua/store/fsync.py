"""Makes sure that what an engine wrote has reached the disk, for which it does not wait (fsync_after_insert is 0)."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path


def sync_filesystem(path: Path) -> None:
    """Write everything of the file system that holds ``path`` to its disk (syncfs(2)). Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
    finally:
        os.close(descriptor)
