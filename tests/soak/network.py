"""A network that fails: a TCP port of 127.0.0.1 that leads to another one as long as the weather is fair."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

from servers.process import free_ports

_RESET = struct.pack("ii", 1, 0)
# A question of more bytes brings data, and is no greeting.
_DATA_BYTES = 1_500


class Network:
    """Forwards connections to ``port`` of this machine, until another mode is set.

    *refuse*: there is no listener, and connections are reset. *hold*: connections are taken and nothing passes, either
    way, as if every packet were dropped. *cut*: what is connected is reset, once. *lose_answers*: data
    arrives, and the connection is reset where the answer begins. *mend*: all is well, and what was held passes.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        (self.port,) = free_ports(1)
        self._listening = socket.socket()
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # The port is bound for good and only sometimes listened on: so no other process gets it meanwhile.
        self._listening.bind(("127.0.0.1", self.port))
        self._lock = threading.Lock()
        self._lines: set[_Line] = set()
        self._passes = threading.Event()
        self._loses_answers = False
        self.mend()

    def mend(self) -> None:
        self._loses_answers = False
        self._passes.set()
        if not self._listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            self._listening.listen(128)
            threading.Thread(target=self._accept, daemon=True).start()

    def refuse(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self.cut()

    def hold(self) -> None:
        self._passes.clear()

    def cut(self) -> None:
        with self._lock:
            lines = list(self._lines)
        for line in lines:
            line.reset()

    def lose_answers(self) -> None:
        self._loses_answers = True

    def close(self) -> None:
        self.refuse()
        self._passes.set()
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                taken, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(taken,), daemon=True).start()

    def _serve(self, taken: socket.socket) -> None:
        with taken, socket.socket() as onward:
            line = _Line(taken, onward)
            with self._lock:
                self._lines.add(line)
            try:
                onward.connect(("127.0.0.1", self._to))
                answers = threading.Thread(target=self._answers, args=(line,), daemon=True)
                answers.start()
                self._questions(line)
                answers.join()
            except OSError:
                line.reset()  # as a port without a listener does
            finally:
                with self._lock:
                    self._lines.discard(line)

    def _questions(self, line: _Line) -> None:
        with contextlib.suppress(OSError):
            while data := line.taken.recv(65_536):
                self._passes.wait()
                line.asked += len(data)
                line.onward.sendall(data)
        with contextlib.suppress(OSError):
            line.onward.shutdown(socket.SHUT_RDWR)

    def _answers(self, line: _Line) -> None:
        with contextlib.suppress(OSError):
            while data := line.onward.recv(65_536):
                self._passes.wait()
                if self._loses_answers and line.asked > _DATA_BYTES:
                    line.reset()
                    break
                line.asked = 0
                line.taken.sendall(data)
        with contextlib.suppress(OSError):
            line.taken.shutdown(socket.SHUT_RD)  # wakes who waits for more questions


class _Line:
    """One connection, and the one that it is led on by. Both are closed by the thread that made them."""

    def __init__(self, taken: socket.socket, onward: socket.socket) -> None:
        self.taken = taken
        self.onward = onward
        self.asked = 0  # bytes since the last answer

    def reset(self) -> None:
        """Let it end with a reset, once who waits for it has woken up."""
        with contextlib.suppress(OSError):
            self.taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.taken.shutdown(socket.SHUT_RD)
        with contextlib.suppress(OSError):
            self.onward.shutdown(socket.SHUT_RDWR)
