"""Be a ClickHouse server: clickhouse-local out of libchdb, listening.

Arguments: the library, the config file, the port of the native protocol, and the one on which the library has it.

As a library it aborts where it reads from a native connection that is reset, which a server survives: the client may be
another server that closes what it had not read to the end, as after a LIMIT. So clients are connected here, and the
library is told the end of each connection in order.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import socket
import sys
import threading

SERVE = (
    "SYSTEM START LISTEN HTTP; SYSTEM START LISTEN TCP; "
    "SELECT sleepEachRow(1) FROM system.numbers FORMAT Null SETTINGS max_block_size=1, max_rows_to_read=0"
)
PR_SET_PDEATHSIG = 1
LOOPBACK = "127.0.0.1"


def main() -> None:
    library, config, port, behind = sys.argv[1:]
    # A test run that dies takes its server along.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    listening = socket.create_server((LOOPBACK, int(port)), backlog=128)
    threading.Thread(target=accept, args=(listening, int(behind)), daemon=True).start()
    arguments = [b"clickhouse", b"--config-file", config.encode(), b"--query", SERVE.encode()]
    argv = (ctypes.c_char_p * len(arguments))(*arguments)
    ctypes.CDLL(library).query_stable_v2(len(arguments), argv)


def accept(listening: socket.socket, behind: int) -> None:
    while True:
        client, _ = listening.accept()
        threading.Thread(target=pass_on, args=(client, behind), daemon=True).start()


def pass_on(client: socket.socket, behind: int) -> None:
    """Lead one connection to the library until both sides have ended it."""
    with client, contextlib.suppress(OSError), socket.create_connection((LOOPBACK, behind)) as library:
        for each in (client, library):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers = threading.Thread(target=pass_back, args=(library, client), daemon=True)
        answers.start()
        with contextlib.suppress(OSError):
            while part := client.recv(65_536):
                library.sendall(part)
        with contextlib.suppress(OSError):
            library.shutdown(socket.SHUT_WR)
        answers.join()


def pass_back(library: socket.socket, client: socket.socket) -> None:
    """Send the client what the library says, and read that to its end also where the client is gone."""
    is_there = True
    with contextlib.suppress(OSError):
        while part := library.recv(65_536):
            if is_there:
                try:
                    client.sendall(part)
                except OSError:
                    is_there = False
    with contextlib.suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)  # wakes who waits for questions


if __name__ == "__main__":
    main()
