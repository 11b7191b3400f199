"""``gua answer``: one report for a user of this host, over a connection that the agent hands on.

The agent starts it, not people: a process of its own that opens the store, answers the report's questions and
ends, so that the agent never loads the engine.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Final

import typer

from gpu_usage_audit.agent import signals
from gpu_usage_audit.agent.peer import LineError, Lines, Peer, encoded, send_line
from gpu_usage_audit.agent.views import VIEWS, checked_question
from gpu_usage_audit.core.errors import DataError, GuaError, TransientError, UnavailableError
from gpu_usage_audit.core.ports import Row, ViewReader

REPORT_SECONDS: Final = 180.0
_POLITENESS: Final = 10
_REQUEST_BYTES: Final = 2 * 2**20
_QUIET_SECONDS: Final = 30.0
_SEND_SECONDS: Final = 30.0
_CHUNK_BYTES: Final = 256 * 1024
_WATCH_SECONDS: Final = 0.25
_GRACE_SECONDS: Final = 10.0


def command(*, fd: Annotated[int, typer.Option("--fd", help="The connection, inherited.")]) -> None:
    """Answer one report over a connection that the agent hands on. The agent starts this, not people.

    Example:
        gua status
    """
    from gpu_usage_audit.cli import wiring  # noqa: PLC0415 - the agent imports this module and needs no store

    signals.release()
    os.nice(_POLITENESS)
    try:
        connection = socket.socket(fileno=fd)
    except OSError:
        msg = "gua answer is started by the agent: run gua report"
        raise UnavailableError(msg) from None
    with connection:
        converse(connection, lambda: wiring.open_reader(None))


def converse(connection: socket.socket, open_reader: Callable[[], AbstractContextManager[ViewReader]]) -> None:
    """Open the store, say so, and answer one question after the other until the other end is content or gone."""
    try:
        with open_reader() as reader:
            send_line(connection, {"ready": True}, seconds=_SEND_SECONDS)
            lines = Lines(connection, longest_bytes=_REQUEST_BYTES)
            while (question := lines.object(deadline=time.monotonic() + _QUIET_SECONDS)) is not None:
                _answer(connection, reader, question)
    except GuaError as error:
        _complain(connection, str(error), error.exit_code)
    except LineError as error:
        _complain(connection, f"the agent got {error}", DataError.exit_code)
    except OSError:
        pass  # they are gone, or take too long
    except Exception as error:  # noqa: BLE001 - the user is told in one line, whatever it is
        _complain(connection, f"the report failed ({type(error).__name__})", UnavailableError.exit_code)


def _answer(connection: socket.socket, reader: ViewReader, question: Mapping[str, object]) -> None:
    try:
        view, parameters = checked_question(question.get("view"), question.get("parameters"))
    except ValueError as error:
        _complain(connection, str(error), DataError.exit_code)
        return
    connection.settimeout(_SEND_SECONDS)
    for chunk in _chunks(view, reader.rows(view, parameters)):
        connection.sendall(chunk)


def _chunks(view: str, rows: Iterable[Row]) -> Iterator[bytes]:
    """Yield lines of bounded size with the view's public columns; all but the last say that there is more."""
    part: list[bytes] = []
    size = 0
    for row in rows:
        text = encoded({column: row[column] for column in VIEWS[view].columns}).rstrip(b"\n")
        if part and size + len(text) > _CHUNK_BYTES:
            yield b'{"rows":[' + b",".join(part) + b'],"more":true}\n'
            part, size = [], 0
        part.append(text)
        size += len(text)
    yield b'{"rows":[' + b",".join(part) + b'],"more":false}\n'


def _complain(connection: socket.socket, words: str, exit_code: int) -> None:
    with contextlib.suppress(OSError):
        send_line(connection, {"error": words, "exit_code": exit_code}, seconds=1)


def answer_in_child(
    *, home: Path, store: str | None, seconds: float = REPORT_SECONDS
) -> Callable[[socket.socket, Peer], None]:
    """Return what the agent's :class:`~gpu_usage_audit.agent.server.LocalServer` calls for a report.

    Each call starts ``gua answer`` on the agent's ``home`` and ``store`` (told by environment, as an address may
    hold a password), and returns when it is done. When the user is gone, or the connection is shut down, it has
    10 s to close the store before it is killed; after ``seconds`` it is killed in any case.
    """

    def answer(connection: socket.socket, _peer: Peer) -> None:
        environ = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
        environ["GUA_HOME"] = str(home)
        if store:
            environ["GUA_STORE"] = store
        child = subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, "-m", "gpu_usage_audit", "answer", "--fd", str(connection.fileno())],
            pass_fds=(connection.fileno(),),
            env=environ,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        in_time = _watch(child, connection, seconds)
        if not in_time:
            _complain(connection, f"the report took more than {seconds:g} s: ask for less", TransientError.exit_code)
        elif child.returncode:
            _complain(connection, f"the report ended early ({child.returncode})", UnavailableError.exit_code)

    return answer


def _watch(child: subprocess.Popen[bytes], connection: socket.socket, seconds: float) -> bool:
    """Wait for the child, and kill it some time after nobody waits for its answer; return whether it was in time."""
    gone = select.poll()
    gone.register(connection.fileno(), select.POLLRDHUP)
    deadline = time.monotonic() + seconds
    left = False
    try:
        while child.poll() is None:
            if time.monotonic() >= deadline:
                return left
            if not left and gone.poll(0):
                left, deadline = True, min(deadline, time.monotonic() + _GRACE_SECONDS)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_WATCH_SECONDS)
        return True
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
