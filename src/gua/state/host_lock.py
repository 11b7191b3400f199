"""One agent a host: two would count every GPU hour twice.

The lock is a name, not a file: an abstract unix socket (unix(7)) that the agent binds and listens on. The kernel
gives it free when the agent ends, however it ends, and tells who holds it. What it cannot do:

- Abstract names belong to a network namespace: an agent in a container with a network of its own does not see
  the host's. Both would sample; the report names hosts whose observed time exceeds the elapsed time.
- Any user may take the name, and so keep the agent from starting. The refusal names that process and user.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gua.core.errors import UnavailableError, UsageError
from gua.core.plaintext import safe

DEFAULT_NAME: Final = "gua-agent"
_LONGEST_NAME: Final = 100
_ATTEMPTS: Final = 20
_PAUSE_SECONDS: Final = 0.05
_BACKLOG: Final = 128
_CREDENTIALS: Final = struct.Struct("3i")


@dataclass(frozen=True, kw_only=True, slots=True)
class LockHolder:
    """Who holds the name; a ``pid`` of 0 is a process in a PID namespace that cannot be seen from here."""

    pid: int
    uid: int

    def __str__(self) -> str:
        """Return ``pid 123, user alice``."""
        return f"{f'pid {self.pid}' if self.pid else 'in another PID namespace'}, user {user_name(self.uid)}"


class HostLock:
    """The name, held from ``acquire`` to ``release``, the end of the process, or that of this object: keep it.

    Acquire it in the process that stays (after ``background.detach``): the kernel remembers who listened.
    Commands that the agent starts do not inherit it; a fork without exec would.
    """

    def __init__(self, name: str) -> None:
        self._address = f"\0{name}"
        self._socket: socket.socket | None = None

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> HostLock:
        """Return the lock that ``GUA_HOST_LOCK`` names (meant for tests), else this host's.

        Raises UsageError if it names none.
        """
        name = environ.get("GUA_HOST_LOCK") or DEFAULT_NAME
        if len(name.encode("utf-8", "surrogateescape")) > _LONGEST_NAME or not name.isprintable():
            msg = f"GUA_HOST_LOCK is no name of at most {_LONGEST_NAME} bytes: leave it unset outside of tests"
            raise UsageError(msg)
        return cls(name)

    def acquire(self, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """Take the name. Raises UnavailableError that names who has it."""
        for _ in range(_ATTEMPTS):
            if self._bind():
                return
            holder = self.holder()
            if holder is not None:
                who = "" if holder.uid == os.geteuid() else f"{user_name(holder.uid)} "
                raise UnavailableError(
                    f"another agent ({holder}) samples this host: leave sampling to it (gua status shows it), or "
                    f"{f'{who}stops' if who else 'stop'} it with gua stop"
                )
            sleep(_PAUSE_SECONDS)  # it has just ended, or has not yet begun to listen
        msg = "another process holds the lock of this host's agent and does not say who it is: see ss -xlp, @gua-agent"
        raise UnavailableError(msg)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the name while the block runs. Raises UnavailableError that names who has it."""
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def holder(self) -> LockHolder | None:
        """Return who holds the name, ``None`` if nobody does or it cannot be told."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            asking.settimeout(0)
            try:
                asking.connect(self._address)
                pid, uid, _ = _CREDENTIALS.unpack(
                    asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
                )
            except OSError:
                return None
        return LockHolder(pid=pid, uid=uid)

    def forget_callers(self) -> None:
        """Drop the connections of those who asked for the holder; once a tick keeps room for the next."""
        if self._socket is None:
            return
        with contextlib.suppress(OSError):
            for _ in range(_BACKLOG):  # and no more: callers that come without end must not hold up the loop
                self._socket.accept()[0].close()

    def release(self) -> None:
        """Give the name back; a second time does nothing."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _bind(self) -> bool:
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.bind(self._address)
            listening.settimeout(0)
            listening.listen(_BACKLOG)
        except OSError as error:
            listening.close()
            if error.errno == errno.EADDRINUSE:
                return False
            msg = f"cannot take the lock of this host's agent ({error.strerror}): unix sockets are needed"
            raise UnavailableError(msg) from None
        self._socket = listening
        return True


def user_name(uid: int) -> str:
    """Return a user's name made harmless for a terminal, or ``uid 1234`` where there is none."""
    try:
        return safe(pwd.getpwuid(uid).pw_name)
    except (KeyError, OSError, OverflowError):
        return f"uid {uid}"
