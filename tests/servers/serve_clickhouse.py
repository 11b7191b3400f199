"""Be a ClickHouse server: clickhouse-local out of libchdb, listening.

Arguments: the library, the config file, and the port on which clients have the native protocol; that of the config file
is the library's own.

Where a native connection is reset, clickhouse-local ends itself, and a server logs it (``KillingErrorHandler`` of the
one, ``ServerErrorHandler`` of the other). Another server resets one at times after a LIMIT, with rows left unread. So
clients are connected here, and the library gets the end of each connection in order.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import socket
import sys
import threading
from xml.etree import ElementTree as ET

SERVE = (
    "SYSTEM START LISTEN HTTP; SYSTEM START LISTEN TCP; "
    "SELECT sleepEachRow(1) FROM system.numbers FORMAT Null SETTINGS max_block_size=1, max_rows_to_read=0"
)
PR_SET_PDEATHSIG = 1


def main() -> None:
    library, config, port = sys.argv[1:]
    # A test run that dies takes its server along.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    configuration = ET.parse(config)  # noqa: S314 - the tests' own file
    own_port = int(configuration.findtext("tcp_port", ""))
    for host in configuration.iterfind("listen_host"):
        listening = socket.create_server((host.text, int(port)), backlog=128)
        threading.Thread(target=accept, args=(listening, own_port), daemon=True).start()
    arguments = [b"clickhouse", b"--config-file", config.encode(), b"--query", SERVE.encode()]
    argv = (ctypes.c_char_p * len(arguments))(*arguments)
    ctypes.CDLL(library).query_stable_v2(len(arguments), argv)


def accept(listening: socket.socket, own_port: int) -> None:
    while True:
        client, _ = listening.accept()
        threading.Thread(target=pass_on, args=(client, own_port), daemon=True).start()


def pass_on(client: socket.socket, own_port: int) -> None:
    """Lead one connection to the library until both sides have ended it."""
    with client, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", own_port)) as library:
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
