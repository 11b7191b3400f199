"""``gua answer``: makes one report for a user of this host, over a connection passed by the agent.

The agent starts it, not people. Its own process opens the store, answers the report's queries and exits, so that the
agent never loads the engine.
"""

import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Annotated, Any, Final

import typer

from gua.agent import signals
from gua.app import opening
from gua.core.batches import in_batches
from gua.core.errors import DataError, GuaError, UnavailableError
from gua.core.ports import Row, ViewReader
from gua.core.view import View
from gua.local_socket.client import checked_query
from gua.local_socket.peer import LineError, Lines, complain, encoded, send_line
from gua.report.views import SHARED

_POLITENESS: Final = 10


def command(*, fd: Annotated[int, typer.Option("--fd", help="The connection, inherited.")]) -> None:
    """Answer one report over a connection that the agent hands on. The agent starts this, not people.

    Example:
        gua answer --fd 7
    """
    signals.release()
    os.nice(_POLITENESS)
    try:
        connection = socket.socket(fileno=fd)
    except OSError:
        raise UnavailableError("gua answer is started by the agent: run gua report") from None
    with connection:
        converse(connection, lambda: opening.open_reader(None))


_REQUEST_BYTES: Final = 2 * 2**20
# A report's queries follow each other within milliseconds; an idle client would lock others out of the store.
_QUIET_SECONDS: Final = 10.0
_SEND_SECONDS: Final = 30.0
_CHUNK_BYTES: Final = 256 * 1024


def converse(connection: socket.socket, open_reader: Callable[[], AbstractContextManager[ViewReader]]) -> None:
    """Open the store, report that it is ready, and answer queries until the client disconnects."""
    try:
        with open_reader() as reader:
            send_line(connection, {"ready": True}, seconds=_SEND_SECONDS)
            lines = Lines(connection, longest_bytes=_REQUEST_BYTES)
            while (query := lines.object(deadline=time.monotonic() + _QUIET_SECONDS)) is not None:
                _answer(connection, reader, query)
    except GuaError as error:
        complain(connection, str(error), error.exit_code)
    except LineError as error:
        complain(connection, f"the agent got {error}", DataError.exit_code)
    except OSError:
        pass  # the client is gone or too slow
    except Exception as error:  # noqa: BLE001 - report any error to the user in one line
        complain(connection, f"the report failed ({type(error).__name__})", UnavailableError.exit_code)


def _answer(connection: socket.socket, reader: ViewReader, query: Mapping[str, object]) -> None:
    try:
        view, parameters = checked_query(SHARED, query.get("view"), query.get("parameters"))
    except ValueError as error:
        complain(connection, str(error), DataError.exit_code)
        return
    connection.settimeout(_SEND_SECONDS)
    for chunk in _chunks(view, reader.rows(view.name, parameters)):
        connection.sendall(chunk)


def _chunks(view: View[Any], rows: Iterable[Row]) -> Iterator[bytes]:
    """Yield lines of bounded size with the view's columns; ``more`` is true in all but the last."""
    texts = (encoded({column: row[column] for column in view.columns}).rstrip(b"\n") for row in rows)
    parts = in_batches(texts, _CHUNK_BYTES, len)
    part = next(parts, [])
    for following in parts:
        yield b'{"rows":[' + b",".join(part) + b'],"more":true}\n'
        part = following
    yield b'{"rows":[' + b",".join(part) + b'],"more":false}\n'
