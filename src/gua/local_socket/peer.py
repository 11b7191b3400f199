"""Unix sockets: who is at the other end, and one JSON line at a time."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

_CREDENTIALS: Final = struct.Struct("iII")
_CHUNK_BYTES: Final = 65_536


class LineError(Exception):
    """No whole line of JSON came: what was wrong, in words for the other end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Peer:
    """The process at the other end as the kernel vouches for it (SO_PEERCRED, unix(7)).

    A client sees the process that listened; a server the one that connected.
    """

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> Peer:
    """Return who is at the other end of a connected unix socket."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(raw)
    return Peer(pid=pid, uid=uid, gid=gid)


class Lines:
    """Lines read from a socket, each at most ``longest_bytes``, and never waiting past a deadline.

    ``receive`` takes what comes, as the socket's own ``recv`` does; another one also takes descriptors.
    """

    def __init__(
        self,
        connection: socket.socket,
        *,
        longest_bytes: int,
        monotonic: Callable[[], float] = time.monotonic,
        receive: Callable[[int], bytes] | None = None,
    ) -> None:
        self._connection = connection
        self._receive = receive or connection.recv
        self._longest_bytes = longest_bytes
        self._monotonic = monotonic
        self._buffer = bytearray()

    @property
    def unread(self) -> bool:
        """Whether more has come than the lines taken."""
        return bool(self._buffer)

    def line(self, *, deadline: float) -> bytes | None:
        """Return the next line without its end, ``None`` if the other end closed before it began one.

        ``deadline`` is on the monotonic clock. Raises LineError for half a line or one that is too long,
        TimeoutError at the deadline, OSError where the connection broke.
        """
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > self._longest_bytes:
                msg = f"a line of more than {self._longest_bytes} bytes"
                raise LineError(msg)
            left = deadline - self._monotonic()
            if left <= 0:
                raise TimeoutError
            self._connection.settimeout(left)
            received = self._receive(_CHUNK_BYTES)
            if not received and self._buffer:
                msg = "half a line"
                raise LineError(msg)
            if not received:
                return None
            self._buffer += received
        if end > self._longest_bytes:
            msg = f"a line of more than {self._longest_bytes} bytes"
            raise LineError(msg)
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def object(self, *, deadline: float) -> dict[str, Any] | None:
        """Return the next line's JSON object; raises as :meth:`line`, LineError also for anything else than one."""
        line = self.line(deadline=deadline)
        if line is None:
            return None
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            msg = "a line that is no JSON object"
            raise LineError(msg)
        return found


def send_line(connection: socket.socket, message: object, *, seconds: float) -> None:
    """Send one line of JSON within so many seconds. Raises OSError (TimeoutError) where it does not get out."""
    connection.settimeout(seconds)
    connection.sendall(encoded(message))


def encoded(message: object) -> bytes:
    """Return a message as one line of ASCII; text that is no valid Unicode survives it."""
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def complain(connection: socket.socket, words: str, exit_code: int, *, seconds: float = 1, **more: object) -> None:
    """Say what is wrong, if the other end still listens; ``more`` fields go with it."""
    with contextlib.suppress(OSError):
        send_line(connection, {"error": words, "exit_code": exit_code, **more}, seconds=seconds)
