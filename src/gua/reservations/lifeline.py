"""Detection of a command's end without heartbeats: a file lock held by its processes, and a pidfd of its leader.

The agent opens a file in its own directory and takes a shared lock on the open file description (F_OFD_SETLK in
fcntl(2)). It passes that read-only descriptor to the command, whose child processes inherit it. The lock is released
when the last of them has ended or closed the descriptor. The agent tests it with F_OFD_GETLK through a second
description. Other users cannot take or release the lock.
"""

import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

# struct flock of 64-bit Linux: type, whence, start, length, pid. For OFD locks the pid must be 0.
_FLOCK: Final = struct.Struct("hhqqi4x")
_SO_PEERPIDFD: Final = 77  # since Linux 6.5


def make(path: Path) -> int:
    """Create the lock file and return a descriptor that holds the lock, to pass on. Raises OSError."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    return make_again(path)


def make_again(path: Path) -> int:
    """Return a new descriptor that holds the lock of an existing file, to pass on. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def is_held(path: Path) -> bool:
    """Return whether any process still holds the lock; a missing file is not locked. Raises OSError if unknown."""
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
    """Remove a lock file that is no longer needed. Ignores OSError."""
    with contextlib.suppress(OSError):
        path.unlink()


def open_pidfd(
    pid: int, begun: int, start_ticks: Callable[[int], int | None], peer: socket.socket | None = None
) -> int | None:
    """Return a pidfd of the process with this pid and start [kernel ticks], ``None`` if it ended. Raises OSError.

    From Linux 6.5 on (SO_PEERPIDFD) it is that of a connection's ``peer``. Before, the pidfd is opened by pid, and the
    start time, read before and after, proves that the pid was not reused.
    """
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
