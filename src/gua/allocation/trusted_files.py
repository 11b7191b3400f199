"""Small files that root or the agent's own user wrote, and nobody else may change."""

from __future__ import annotations

import os
import stat
from typing import Final

MOST_BYTES: Final = 64 * 1024
_OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

Stamp = tuple[int, int, int, int, int, int]


def distrusted(status: os.stat_result) -> str | None:
    """Return why what a file or folder says is not believed, ``None`` if root or this user alone may write it."""
    if status.st_uid not in {0, os.geteuid()}:
        return f"owned by uid {status.st_uid}, not by root or the agent's user"
    if status.st_mode & _OTHERS_MAY_WRITE:
        return "others than its owner may write it"
    return None


def refusal(status: os.stat_result) -> str | None:
    """Return why a file is not read: no regular file, not trusted, or too large."""
    if not stat.S_ISREG(status.st_mode):
        return "a link" if stat.S_ISLNK(status.st_mode) else "no regular file"
    if status.st_size > MOST_BYTES:
        return f"longer than {MOST_BYTES // 1024} KiB"
    return distrusted(status)


def stamp(status: os.stat_result) -> Stamp:
    """Return what changes with each change of a file."""
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size, status.st_mode, status.st_uid


def read_trusted(name: str, folder: int) -> bytes:
    """Return a file of the folder that is open as ``folder``.

    Opens no link and waits for no FIFO. Raises OSError, and ValueError with the reason why it is not believed.
    """
    descriptor = os.open(name, _FLAGS, dir_fd=folder)
    try:
        reason = refusal(os.fstat(descriptor))
        if reason is not None:
            raise ValueError(reason)
        content = os.read(descriptor, MOST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > MOST_BYTES:
        msg = f"longer than {MOST_BYTES // 1024} KiB"
        raise ValueError(msg)
    return content
