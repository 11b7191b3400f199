"""Client of the local socket: queries this host's agent after checking that its process is trusted."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gua.core.errors import (
    DataError,
    GuaError,
    NotNowError,
    NotYoursError,
    TransientError,
    UnavailableError,
    UsageError,
)
from gua.core.parameters import PARAMETERS
from gua.core.plaintext import safe
from gua.local_socket.peer import LineError, Lines, send_line
from gua.state.socket_address import Peer, peer_credentials, short_address

if TYPE_CHECKING:
    from gua.core.view import View

Views = Mapping[str, "View[Any]"]
"""Views that may be queried, by name."""


def checked_query(views: Views, name: object, parameters: object) -> tuple[View[Any], dict[str, object]]:
    """Return a query's view and parameters. Raises ValueError with the fault if they are invalid."""
    if not isinstance(name, str) or name not in views:
        raise ValueError("no such view for reports")
    view = views[name]
    if not isinstance(parameters, dict) or set(parameters) != set(view.parameters):
        raise ValueError(f"the view {name} has the parameters {', '.join(sorted(view.parameters)) or 'none'}")
    for parameter, value in parameters.items():
        if not PARAMETERS[parameter].check(value):
            raise ValueError(f"the parameter {parameter} of {name} cannot be used")
    return view, parameters


def checked_row(view: View[Any], row: object) -> dict[str, Any]:
    """Return a row's known columns. Raises ValueError if one is missing or of the wrong kind."""
    if not isinstance(row, dict):
        msg = f"a row of {view.name} is no object"
        raise ValueError(msg)  # noqa: TRY004 - one error type for every fault in a response
    for name, column in view.columns.items():
        if name not in row or not column.check(row[name]):
            raise ValueError(f"the column {name} of {view.name} is not what it should be")
    return {name: row[name] for name in view.columns}


ASK_SECONDS: Final = 5.0
OPEN_SECONDS: Final = 90.0
VIEW_SECONDS: Final = 120.0
_BUSY_PAUSE_SECONDS: Final = 0.25
_STATUS_BYTES: Final = 8 * 2**20
_LINE_BYTES: Final = 16 * 2**20
_MOST_ROWS: Final = 2_000_000
_OTHERS_MAY_WRITE: Final = 0o022
_SHORTEST_SECONDS: Final = 0.01
_LONGEST_ERROR: Final = 500
_FOREVER_SECONDS: Final = 366 * 24 * 3600.0


class NobodyError(UnavailableError):
    """No agent listens at the path: no socket, or one left by a killed agent."""


class NotAllowedError(UnavailableError):
    """This user may not connect to the socket, or not see whether an agent listens."""


class NoAnswerError(TransientError):
    """A process listens at the path but does not answer in time, or the connection broke."""


def query_status(path: Path, *, timeout_seconds: float = ASK_SECONDS) -> dict[str, Any]:
    """Return the status object of the agent at ``path``: from a trusted process, but of unvalidated shape.

    Raises NobodyError, NoAnswerError, UnavailableError (not allowed, or not trusted), DataError (not a status).
    """
    conversation, answer = _first_answer(path, "status", seconds=timeout_seconds, longest_bytes=_STATUS_BYTES)
    conversation.close()
    if answer.get("running") is not True:
        raise DataError(_strange(path))
    return answer


class Conversation(AbstractContextManager["Conversation"]):
    """Connection to the agent at ``path`` for requests and responses; a context manager.

    Waits without limit for each line by default. ``descriptors`` lists received file descriptors, in order.
    Raises the errors of :func:`query_status`, from the constructor on, and those that the agent reports.
    """

    def __init__(
        self,
        path: Path,
        request: Mapping[str, object],
        *,
        seconds: float = ASK_SECONDS,
        longest_bytes: int | None = None,
    ) -> None:
        deadline = time.monotonic() + seconds
        self.path = path
        self.descriptors: list[int] = []
        self._connection = _connect(path, deadline)
        self._lines = Lines(self._connection, longest_bytes=longest_bytes or _STATUS_BYTES, receive=self._receive)
        try:
            with _translated(path), contextlib.suppress(BrokenPipeError):  # refused: the response has the reason
                send_line(self._connection, {"gua": 1, **request}, seconds=_left(deadline))
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def next(self, *, seconds: float = _FOREVER_SECONDS) -> dict[str, Any]:
        """Return the agent's next line. Raises TransientError if it closed the connection."""
        with _translated(self.path):
            return _checked(self.path, self._lines.object(deadline=time.monotonic() + seconds))

    def send(self, message: Mapping[str, object], *, seconds: float = ASK_SECONDS) -> None:
        """Send one more line. Raises the errors of :meth:`next`."""
        with _translated(self.path):
            send_line(self._connection, message, seconds=seconds)

    def _receive(self, size: int) -> bytes:
        received, descriptors, _, _ = socket.recv_fds(self._connection, size, 1)
        self.descriptors += descriptors
        return received


class BusyError(TransientError):
    """The agent is busy with other requests: retry soon."""


class RemoteReader(AbstractContextManager["RemoteReader"]):
    """Reads report views through the agent at ``path``; a context manager, like a store.

    ``views`` are the views that may be queried. Opening waits while the agent makes other reports. Raises the errors
    of :func:`query_status`, and the error of the agent's own report.
    """

    is_concurrent: Final = False
    """The agent answers one query at a time."""
    is_embedded: Final = True

    def __init__(self, path: Path, views: Views) -> None:
        self._path = path
        self._views = views
        self._conversation, answer = _first_answer(path, "report", seconds=OPEN_SECONDS, longest_bytes=_LINE_BYTES)
        if answer.get("ready") is not True:
            self.close()
            raise DataError(_strange(path))

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the agent then releases the store."""
        self._conversation.close()

    def rows(self, view: str, parameters: Mapping[str, object]) -> list[dict[str, Any]]:
        """Return the rows of ``gua_report.<view>`` with validated columns. Raises DataError for malformed rows."""
        deadline = time.monotonic() + VIEW_SECONDS
        self._conversation.send({"view": view, "parameters": dict(parameters)}, seconds=VIEW_SECONDS)
        checked: list[dict[str, Any]] = []
        answer: Mapping[str, Any] = {"more": True}
        while answer.get("more") is True:
            answer = self._conversation.next(seconds=deadline - time.monotonic())
            rows = answer.get("rows")
            if not isinstance(rows, list) or len(checked) + len(rows) > _MOST_ROWS:
                raise DataError(_strange(self._path))
            try:
                checked += (checked_row(self._views[view], row) for row in rows)
            except ValueError as error:
                raise DataError(f"{_strange(self._path)} ({error})") from None
        return checked


def _first_answer(path: Path, ask: str, *, seconds: float, longest_bytes: int) -> tuple[Conversation, dict[str, Any]]:
    """Return an open connection and the first response; retries while the agent is busy."""
    deadline = time.monotonic() + seconds
    while True:
        conversation = Conversation(path, {"ask": ask}, seconds=_left(deadline), longest_bytes=longest_bytes)
        try:
            return conversation, conversation.next(seconds=_left(deadline))
        except BaseException as error:
            conversation.close()
            if not isinstance(error, BusyError) or _left(deadline) <= _BUSY_PAUSE_SECONDS:
                raise
        time.sleep(_BUSY_PAUSE_SECONDS)


def believable(peer: Peer, path: Path) -> bool:
    """Return whether the process listening at ``path`` is trusted: root, this user, or the owner set by root.

    A systemd service with DynamicUser has an arbitrary uid, but systemd creates its /run/gua. So the folder's owner is
    trusted only if root alone can have chosen it: every parent folder belongs to root and is not writable by others,
    and the folder itself is writable by its owner alone.
    """
    if peer.uid in {0, os.geteuid()}:
        return True
    try:
        folder = path.parent.resolve(strict=True)
        status = folder.stat()
        above = [place.stat() for place in folder.parents]
    except OSError:
        return False
    return (
        status.st_uid == peer.uid
        and stat.S_ISDIR(status.st_mode)
        and not status.st_mode & _OTHERS_MAY_WRITE
        and all(place.st_uid == 0 and not place.st_mode & _OTHERS_MAY_WRITE for place in above)
    )


def _connect(path: Path, deadline: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _translated(path), short_address(path) as address:
            while True:
                connection.settimeout(_left(deadline))
                try:
                    connection.connect(address)
                    break
                except BlockingIOError:  # its listen queue is full
                    if _left(deadline) <= _SHORTEST_SECONDS:
                        raise TimeoutError from None
                    time.sleep(_SHORTEST_SECONDS)
            peer = peer_credentials(connection)
        if not believable(peer, path):
            msg = (
                f"the process at {path} (uid {peer.uid}) runs as neither root, nor you, nor the owner of its folder: "
                "it is not trusted; name the socket of this host's agent with --socket"
            )
            raise UnavailableError(msg)  # noqa: TRY301 - handled like a broken connection
    except BaseException:
        connection.close()
        raise
    return connection


def _left(deadline: float) -> float:
    return max(_SHORTEST_SECONDS, deadline - time.monotonic())


def _checked(path: Path, answer: dict[str, Any] | None) -> dict[str, Any]:
    """Return a response. Raises the error that it reports, or TransientError if the connection was closed."""
    if answer is None:
        raise TransientError(f"the agent at {path} ended the conversation: try again, or see its log")
    if "error" not in answer:
        return answer
    words = safe(str(answer["error"]), _LONGEST_ERROR)
    if answer.get("busy") is True:
        raise BusyError(words)
    reported = (UsageError, DataError, NotNowError, NotYoursError)
    kinds: dict[object, type[GuaError]] = {kind.exit_code: kind for kind in reported}
    code = answer.get("exit_code")
    raise kinds.get(code if isinstance(code, int) else None, UnavailableError)(words)


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Turn socket errors into gua's errors: one line with the cause and the remedy."""
    try:
        yield
    except TimeoutError:
        msg = f"the agent at {path} does not answer in time: it is stalled or very busy, see its log"
        raise NoAnswerError(msg) from None
    except LineError as error:
        raise DataError(f"{_strange(path)} ({error})") from None
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        raise NobodyError(f"no agent listens at {path}") from None
    except PermissionError:
        msg = f"may not query the agent at {path}: it answers its own user and root, try as that user or with sudo"
        raise NotAllowedError(msg) from None
    except OSError as error:
        msg = f"cannot query the agent at {path} ({error.strerror or error}): try again, or see its log"
        raise NoAnswerError(msg) from None


def _strange(path: Path) -> str:
    return f"the agent at {path} answers what this gua does not understand: use the same version for both"
