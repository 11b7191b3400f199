"""How the end of a command is noticed without heartbeats: a lock that lives in its processes, a handle on its leader.

The agent opens a file of its own twice. On the one description it takes a shared lock that belongs to the open file
description (F_OFD_SETLK, fcntl(2)) and hands that description to the command, which everything that it starts inherits.
The lock is gone exactly when the last of them has ended or closed it: F_OFD_GETLK tells, through the other description.
Nobody else can take or drop it: the file lies in the agent's directory, and what was handed over is open for reading
alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

# struct flock of 64-bit Linux: type, whence, start, length, pid. Of a lock on a description the pid is 0.
_FLOCK: Final = struct.Struct("hhqqi4x")
_SO_PEERPIDFD: Final = 77  # since Linux 6.5


def make(path: Path) -> int:
    """Make the file and return a descriptor to hand over, which holds the lock. Raises OSError."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    return make_again(path)


def make_again(path: Path) -> int:
    """Return a descriptor to hand over of a lock that nobody has. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def is_held(path: Path) -> bool:
    """Return whether any process still has the lock. Raises OSError if that cannot be told; a missing file is free."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    finally:
        os.close(descriptor)
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def remove(path: Path) -> None:
    """Remove the file of a lock that nobody needs any more. Never raises."""
    with contextlib.suppress(OSError):
        path.unlink()


def pidfd_of_peer(
    connection: socket.socket, pid: int, start_ticks: Callable[[int], int | None]
) -> tuple[int, int] | None:
    """Return a handle on the process at the other end and its start in ticks; ``None`` if it has ended.

    Before Linux 6.5 it is opened by its pid, and its start, read before and after, says that it is still the one.
    Raises OSError if there is no way to have one.
    """
    begun = start_ticks(pid)
    handle = None if begun is None else pidfd_of(pid, begun, start_ticks, connection)
    return None if handle is None or begun is None else (handle, begun)


def pidfd_of(
    pid: int, begun: int, start_ticks: Callable[[int], int | None], peer: socket.socket | None = None
) -> int | None:
    """Return a handle on the process that began at that time, ``None`` if it has ended. Raises OSError."""
    handle: int | None = None
    if peer is not None:
        with contextlib.suppress(OSError):
            handle = peer.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid) if handle is None else handle
    if handle is not None and start_ticks(pid) != begun:
        os.close(handle)
        return None
    return handle
