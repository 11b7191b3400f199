"""A bad line: a TCP port of 127.0.0.1 that forwards to another one, and breaks on command."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from types import TracebackType
from typing import Literal, Self

_RESET = struct.pack("ii", 1, 0)
_AFTER_BYTES = 300

Fault = Literal["reset in the request", "lose the answer"]


class Line:
    """Forwards connections to ``port``; each of the next ``faults`` breaks the connection that meets it.

    *reset in the request* ends the connection with a reset once some of the request was read and nothing of it was
    forwarded; *lose the answer* forwards the request and ends the connection when the answer begins.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self.faults: list[Fault] = []
        self.broken = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                taken, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(taken,), daemon=True).start()

    def _serve(self, taken: socket.socket) -> None:
        with contextlib.suppress(OSError), taken, socket.create_connection(("127.0.0.1", self._to)) as onward:
            self._open += [taken, onward]
            threading.Thread(target=self._answers, args=(onward, taken), daemon=True).start()
            while data := taken.recv(65_536):
                if self.faults and self.faults[0] == "reset in the request" and len(data) >= _AFTER_BYTES:
                    self.faults.pop(0)
                    self._break(taken)
                    return
                onward.sendall(data)

    def _answers(self, onward: socket.socket, taken: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := onward.recv(65_536):
                if self.faults and self.faults[0] == "lose the answer":
                    self.faults.pop(0)
                    self._break(taken)
                    return
                taken.sendall(data)

    def _break(self, taken: socket.socket) -> None:
        self.broken += 1
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        taken.shutdown(socket.SHUT_RD)
        taken.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()
        for each in self._open:
            with contextlib.suppress(OSError):
                each.close()
