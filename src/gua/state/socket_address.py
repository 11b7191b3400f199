"""Unix sockets: credentials of the peer, and addresses for paths that exceed the limit of ``sun_path``."""

import os
import pwd
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gua.core.plaintext import safe

_LONGEST_ADDRESS: Final = 107  # bytes; sun_path has 108, including the terminating zero, unix(7)

_CREDENTIALS: Final = struct.Struct("iII")


@dataclass(frozen=True, kw_only=True, slots=True)
class Peer:
    """Process at the other end, as the kernel reports it (SO_PEERCRED, unix(7)).

    A client sees the process that called listen(2); a server the one that called connect(2). ``pid`` is 0 for a process
    in a PID namespace that is not visible here.
    """

    pid: int
    uid: int
    gid: int

    def __str__(self) -> str:
        """Return ``pid 123, user alice``."""
        return f"{f'pid {self.pid}' if self.pid else 'in another PID namespace'}, user {user_name(self.uid)}"


def user_name(uid: int) -> str:
    """Return a user's name, safe for a terminal, or ``uid 1234`` if it has none."""
    try:
        return safe(pwd.getpwuid(uid).pw_name)
    except (KeyError, OSError, OverflowError):
        return f"uid {uid}"


def peer_credentials(connection: socket.socket) -> Peer:
    """Return the peer of a connected unix socket."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(raw)
    return Peer(pid=pid, uid=uid, gid=gid)


@contextmanager
def short_address(path: Path) -> Iterator[str]:
    """Yield a socket address for ``path``: the path, or a short alias through its open folder if it is too long.

    The alias is valid in this process during the block. Raises OSError if the folder cannot be opened.
    """
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
