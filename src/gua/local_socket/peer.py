"""JSON lines over Unix sockets."""

import contextlib
import json
import socket
import time
from collections.abc import Callable
from typing import Any, Final

from gua.core.untrusted import parsed_json

_CHUNK_BYTES: Final = 65_536


class LineError(Exception):
    """No complete JSON line arrived; the text describes the fault for the peer."""


class Lines:
    """Reader of lines from a socket, each at most ``longest_bytes`` long, with a deadline.

    ``receive`` replaces the socket's ``recv``, for example to receive file descriptors too.
    """

    def __init__(
        self,
        connection: socket.socket,
        *,
        longest_bytes: int,
        receive: Callable[[int], bytes] | None = None,
    ) -> None:
        self._connection = connection
        self._receive = receive or connection.recv
        self._longest_bytes = longest_bytes
        self._buffer = bytearray()

    @property
    def unread(self) -> bool:
        """Whether received bytes are left after the last returned line."""
        return bool(self._buffer)

    def line(self, *, deadline: float) -> bytes | None:
        """Return the next line without its newline; ``None`` if the peer closed before a new line.

        ``deadline`` is on the monotonic clock. Raises LineError for a truncated or too long line, TimeoutError at the
        deadline, OSError for a broken connection.
        """
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > self._longest_bytes:
                raise LineError(f"a line of more than {self._longest_bytes} bytes")
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._connection.settimeout(left)
            received = self._receive(_CHUNK_BYTES)
            if not received and self._buffer:
                raise LineError("half a line")
            if not received:
                return None
            self._buffer += received
        if end > self._longest_bytes:
            raise LineError(f"a line of more than {self._longest_bytes} bytes")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def object(self, *, deadline: float) -> dict[str, Any] | None:
        """Return the next line's JSON object. Raises the errors of :meth:`line`, and LineError for other content."""
        line = self.line(deadline=deadline)
        if line is None:
            return None
        message = parsed_json(line)
        if not isinstance(message, dict):
            raise LineError("a line that is no JSON object")
        return message


def send_line(connection: socket.socket, message: object, *, seconds: float) -> None:
    """Send one JSON line within ``seconds``. Raises OSError (TimeoutError) if that fails."""
    connection.settimeout(seconds)
    connection.sendall(encoded(message))


def encoded(message: object) -> bytes:
    """Return a message as one line of ASCII JSON; escapes preserve invalid Unicode such as lone surrogates."""
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def complain(connection: socket.socket, words: str, exit_code: int, *, seconds: float = 1, **more: object) -> None:
    """Send an error line with the fields ``more``; ignored if the peer is gone."""
    with contextlib.suppress(OSError):
        send_line(connection, {"error": words, "exit_code": exit_code, **more}, seconds=seconds)
