"""One call of a gRPC server on a Unix socket: bounded in time and size, and without grpc.

grpc takes 21 MB and, in a process of its own, 140 ms of CPU a call. A call of this kind is a request and an answer of
HTTP/2 (RFC 9113) with five bytes before each message:
https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md.
"""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path
from typing import Final

from gua.allocation.hpack import headers
from gua.core.errors import GuaError
from gua.state.socket_address import address_of

MOST_BYTES: Final = 4 * 2**20
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE, _CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
_END_STREAM, _ACK, _END_HEADERS, _PADDED, _PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
_TABLE_SIZE, _ENABLE_PUSH, _WINDOW = 1, 2, 4
_LONGEST_FRAME: Final = 16_384
_MOST_HEADERS: Final = 65_536
_FIRST_WINDOW: Final = 65_535
_STREAM: Final = 1
_PREFIX: Final = 5
_HEAD: Final = struct.Struct(">I")
_STATUSES: Final = {
    "1": "cancelled",
    "2": "unknown error",
    "4": "deadline exceeded",
    "5": "not found",
    "7": "permission denied",
    "8": "resource exhausted",
    "12": "unimplemented",
    "13": "internal error",
    "14": "unavailable",
    "16": "unauthenticated",
}


class CallError(GuaError):
    """The server gave no answer; the message says why in a few words."""


class NoSocketError(CallError):
    """There is no socket, or this process may not use it."""


def call(path: Path, method: str, request: bytes = b"", *, seconds: float, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the one message that the method at the socket answers with, within ``seconds``. Raises CallError."""
    deadline = time.monotonic() + seconds
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
        try:
            connection.settimeout(seconds)
            with address_of(path) as address:
                connection.connect(address)
            connection.sendall(_question(method, request, seconds, most_bytes))
            return _Answer(connection, deadline, most_bytes).message()
        except TimeoutError:
            msg = f"no answer within {seconds:g} s"
            raise CallError(msg) from None
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            msg = f"{path}: {error.strerror}"
            raise NoSocketError(msg) from None
        except OSError as error:
            raise CallError(error.strerror or str(error) or type(error).__name__) from None
        except ValueError as error:
            msg = f"its answer is garbage: {error}"
            raise CallError(msg) from None


def _question(method: str, request: bytes, seconds: float, most_bytes: int) -> bytes:
    settings = struct.pack(">HIHIHI", _TABLE_SIZE, 0, _ENABLE_PUSH, 0, _WINDOW, most_bytes + _FIRST_WINDOW)
    asked = b"\x83\x86"  # POST, http
    for name, value in (
        (b"\x04", method),  # :path
        (b"\x01", "localhost"),  # :authority
        (b"\x0f\x10", "application/grpc"),  # content-type
        (b"\x00\x02te", "trailers"),
        (b"\x00\x0cgrpc-timeout", f"{max(1, int(seconds * 1000))}m"),
    ):
        asked += name + bytes((len(value),)) + value.encode("ascii")
    return b"".join(
        (
            _PREFACE,
            _frame(_SETTINGS, 0, 0, settings),
            _frame(_WINDOW_UPDATE, 0, 0, _HEAD.pack(most_bytes)),
            _frame(_HEADERS, _END_HEADERS, _STREAM, asked),
            _frame(_DATA, _END_STREAM, _STREAM, b"\x00" + _HEAD.pack(len(request)) + request),
        )
    )


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return _HEAD.pack(len(payload))[1:] + bytes((kind, flags)) + _HEAD.pack(stream) + payload


class _Answer:
    """What comes back on a connection, frame by frame."""

    def __init__(self, connection: socket.socket, deadline: float, most_bytes: int) -> None:
        self._connection = connection
        self._deadline = deadline
        self._most_bytes = most_bytes
        self._data = bytearray()
        self._block = bytearray()
        self._headers: dict[str, str] = {}
        self._is_last = self._is_whole = False

    def message(self) -> bytes:
        """Return the message once the answer is whole. Raises CallError, ValueError, OSError."""
        while not self._is_whole:
            self._take(*self._frame())
        status = self._headers.get("grpc-status")
        if self._headers.get(":status") != "200" or status is None:
            msg = "no answer of gRPC"
            raise ValueError(msg)
        if status != "0":
            said = self._headers.get("grpc-message", "")
            raise CallError(": ".join(part for part in (_STATUSES.get(status, f"code {status}"), said) if part))
        # A byte for compression, which was not offered, and the length.
        if self._data[:_PREFIX] != b"\x00" + _HEAD.pack(max(0, len(self._data) - _PREFIX)):
            msg = "no whole message"
            raise ValueError(msg)
        return bytes(self._data[_PREFIX:])

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _SETTINGS and not flags & _ACK:
            self._connection.sendall(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            self._connection.sendall(_frame(_PING, _ACK, 0, payload))
        elif kind == _GOAWAY and int.from_bytes(payload[:4], "big") & 0x7FFF_FFFF < _STREAM:
            msg = "it shuts down"
            raise CallError(msg)
        elif kind == _RST_STREAM and stream == _STREAM:
            msg = f"it ended the call (code {int.from_bytes(payload[:4], 'big')})"
            raise CallError(msg)
        elif stream == _STREAM and kind in {_DATA, _HEADERS, _CONTINUATION}:
            self._take_part(kind, flags, payload)

    def _take_part(self, kind: int, flags: int, payload: bytes) -> None:
        if kind != _CONTINUATION:
            self._is_last = bool(flags & _END_STREAM)
            if flags & _PADDED and payload:
                payload = payload[1 : len(payload) - payload[0]]
        if kind == _DATA:
            self._data += payload
            self._is_whole = self._is_last
        else:
            self._block += payload[5:] if kind == _HEADERS and flags & _PRIORITY else payload
            if flags & _END_HEADERS:
                self._headers |= headers(bytes(self._block))
                self._block.clear()
                self._is_whole = self._is_last
        if len(self._data) > self._most_bytes + _PREFIX or len(self._block) > _MOST_HEADERS:
            msg = f"its answer is longer than {self._most_bytes / 2**20:g} MiB"
            raise CallError(msg)

    def _frame(self) -> tuple[int, int, int, bytes]:
        head = self._read(9)
        length = int.from_bytes(head[:3], "big")
        if length > _LONGEST_FRAME:
            msg = "a frame that is too long"
            raise ValueError(msg)
        return head[3], head[4], int.from_bytes(head[5:], "big") & 0x7FFF_FFFF, self._read(length)

    def _read(self, length: int) -> bytes:
        content = bytearray()
        while len(content) < length:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._connection.settimeout(left)
            some = self._connection.recv(length - len(content))
            if not some:
                msg = "it closed the connection"
                raise CallError(msg)
            content += some
        return bytes(content)
