"""Host lock: one agent per host, as two would count every GPU hour twice.

The lock is an abstract unix socket (unix(7)) on which the agent listens. The kernel frees the name when the process
ends, and reports the owner's pid and uid. Limits:

- Abstract names belong to a network namespace: an agent in a container with its own network does not see the
  host's lock. Both would sample; the report names hosts whose observed time exceeds the elapsed time.
- Any user can take the name and so prevent the agent's start. The error names that process and user.
"""

import contextlib
import errno
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Self

from gua.core.errors import UnavailableError, UsageError
from gua.state.socket_address import Peer, peer_credentials, user_name

DEFAULT_NAME: Final = "gua-agent"
_LONGEST_NAME: Final = 100
_ATTEMPTS: Final = 20
_PAUSE_SECONDS: Final = 0.05
_BACKLOG: Final = 128


class HostLock:
    """The lock, held from ``acquire`` to ``release``, or until the process or this object ends.

    Acquire it in the final process (after ``background.detach``): the kernel reports the process that listened.
    Commands that the agent starts do not inherit it; a fork without exec would.
    """

    def __init__(self, name: str) -> None:
        self._address = f"\0{name}"
        self._socket: socket.socket | None = None

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self:
        """Return the lock named by ``GUA_HOST_LOCK`` (for tests), else the host's lock.

        Raises UsageError if the name is invalid.
        """
        name = environ.get("GUA_HOST_LOCK") or DEFAULT_NAME
        if len(name.encode("utf-8", "surrogateescape")) > _LONGEST_NAME or not name.isprintable():
            msg = f"GUA_HOST_LOCK is no name of at most {_LONGEST_NAME} bytes: leave it unset outside of tests"
            raise UsageError(msg)
        return cls(name)

    def acquire(self, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """Take the lock. Raises UnavailableError that names its owner."""
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
            sleep(_PAUSE_SECONDS)  # the owner has just ended, or does not listen yet
        msg = "another process holds the lock of this host's agent and does not say who it is: see ss -xlp, @gua-agent"
        raise UnavailableError(msg)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock during the block. Raises UnavailableError that names its owner."""
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def holder(self) -> Peer | None:
        """Return the owner of the lock; ``None`` if it is free or the owner is unknown."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(0)
            try:
                client.connect(self._address)
                return peer_credentials(client)
            except OSError:
                return None

    def forget_callers(self) -> None:
        """Close connections of processes that queried the owner; called every tick to keep the backlog free."""
        if self._socket is None:
            return
        with contextlib.suppress(OSError):
            for _ in range(_BACKLOG):  # bounded: endless connections must not delay the loop
                self._socket.accept()[0].close()

    def release(self) -> None:
        """Free the lock; idempotent."""
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
