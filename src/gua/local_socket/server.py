"""Server of the local socket: answers users of the agent's host. Invalid input never stops the agent.

A request is one JSON line, ``{"gua":1,"ask":"status"}``. "status" gets a one-line response. "report" passes the
connection to ``answer``, other names to the conversation of that name. Errors get
``{"error": words, "exit_code": number}``, and the connection is closed.
"""

import contextlib
import errno
import os
import selectors
import socket
import stat
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gua.core.errors import GuaError, UnavailableError
from gua.local_socket.peer import LineError, Lines, complain, send_line
from gua.state.socket_address import Peer, peer_credentials, short_address

PROTOCOL: Final = 1
PRIVATE_MODE: Final = 0o600
PUBLIC_MODE: Final = 0o666
_BACKLOG: Final = 64
_PAUSE_SECONDS: Final = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Listen:
    """Socket path and file mode. With mode 0600 only its owner and root are served."""

    path: Path
    mode: int = PRIVATE_MODE

    @property
    def public(self) -> bool:
        """Whether every user of the host may connect."""
        return bool(self.mode & 0o006)


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits on concurrent users, and on the seconds and bytes of each request.

    The agent's own user and root are admitted beyond the totals, up to the limits per uid.
    """

    connections: int = 16
    connections_per_uid: int = 8
    conversations: int = 512
    conversations_per_uid: int = 256
    reports: int = 4
    reports_per_uid: int = 2
    request_bytes: int = 4096
    request_seconds: float = 2.0
    answer_seconds: float = 5.0


Converse = Callable[[socket.socket, Peer, Mapping[str, Any], Lines], None]
"""Handles a conversation from its first request until it ends; may read further lines."""


class _Room:
    """Open connections of one kind: at most ``most``, except for the agent's own user and root."""

    def __init__(self, most: int, most_per_uid: int) -> None:
        self._most = most
        self._most_per_uid = most_per_uid
        self.peers: dict[socket.socket, Peer] = {}

    def enter(self, connection: socket.socket, peer: Peer) -> bool:
        """Register a connection; return False if a limit is reached."""
        of_user = sum(one.uid == peer.uid for one in self.peers.values())
        has_room = (len(self.peers) < self._most or _is_owner(peer)) and of_user < self._most_per_uid
        if has_room:
            self.peers[connection] = peer
        return has_room


class LocalServer:
    """Serves unix sockets in its own thread, with a short-lived thread per connection.

    ``status`` returns the status object; many threads call it. ``answer`` serves a report on a connection, which is
    closed when it returns; with ``None`` reports are refused. ``conversations`` handle other requests by name; they may
    take hours, and have their own limits. :meth:`close` shuts connections down, which must end all handlers.
    """

    def __init__(
        self,
        *,
        listen: Sequence[Listen],
        status: Callable[[], Mapping[str, Any]],
        answer: Callable[[socket.socket, Peer], None] | None,
        conversations: Mapping[str, Converse] | None = None,
        limits: Limits = Limits(),
    ) -> None:
        self._listen = listen
        self._status = status
        self._answer = answer
        self._conversations = conversations or {}
        self._limits = limits
        self._selector = selectors.DefaultSelector()
        self._sockets: list[tuple[Listen, socket.socket, tuple[int, int]]] = []
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="gua-socket", daemon=True)
        self._closing = False
        self._lock = threading.Lock()
        self._open = _Room(limits.connections, limits.connections_per_uid)
        self._talking = _Room(limits.conversations, limits.conversations_per_uid)
        self._reports = _Room(limits.reports, limits.reports_per_uid)

    def start(self) -> None:
        """Create the sockets and start to serve.

        Raises UnavailableError if a path is unusable, belongs to another user, or has another agent listening.
        """
        try:
            for one in self._listen:
                listener, identity = _listening(one)
                self._sockets.append((one, listener, identity))
                self._selector.register(listener, selectors.EVENT_READ, one)
        except BaseException:
            self._remove()
            raise
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._thread.start()

    def close(self) -> None:
        """Stop serving, shut down every connection, and remove the socket files that this server created."""
        with self._lock:
            self._closing = True
            open_now = [*self._open.peers, *self._talking.peers]
        self._wake.close()
        for connection in open_now:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if self._thread.ident is not None:
            self._thread.join(timeout=5)
        self._remove()
        self._woken.close()
        self._selector.close()

    def _remove(self) -> None:
        for one, listener, identity in self._sockets:
            listener.close()
            with contextlib.suppress(OSError):
                status = one.path.lstat()
                if (status.st_dev, status.st_ino) == identity:
                    one.path.unlink()
        self._sockets.clear()

    def _serve(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select():
                if key.data is not None and isinstance(key.fileobj, socket.socket):
                    self._accept(key.fileobj, key.data)

    def _accept(self, listener: socket.socket, where: Listen) -> None:
        try:
            connection, _ = listener.accept()
        except OSError as error:
            if error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}:
                time.sleep(_PAUSE_SECONDS)  # the listener stays readable: without a pause this thread would spin
            return
        try:
            peer = peer_credentials(connection)
            refusal = self._admit(connection, peer, where)
            if refusal is not None:
                _refuse(connection, refusal, busy=where.public or _is_owner(peer))
                connection.close()
                return
            threading.Thread(target=self._converse, args=(connection, peer), name="gua-answer", daemon=True).start()
        except Exception:  # noqa: BLE001 - the peer is gone, or no thread can be started
            self._forget(connection)

    def _admit(self, connection: socket.socket, peer: Peer, where: Listen) -> str | None:
        """Register a connection; return the reason if it is refused."""
        if not where.public and not _is_owner(peer):
            return "this socket is private: only the agent's own user and root may query it"
        with self._lock:
            if self._closing:
                return "the agent is stopping"
            if not self._open.enter(connection, peer):
                return "the agent is answering others: try again in a moment"
        return None

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            for room in (self._open, self._talking, self._reports):
                room.peers.pop(connection, None)
        connection.close()

    def _converse(self, connection: socket.socket, peer: Peer) -> None:
        try:
            self._reply(connection, peer)
        except OSError:
            pass  # the peer is gone or reads too slowly
        except Exception as error:  # noqa: BLE001 - no input of a user may crash the agent
            _refuse(connection, f"the agent could not answer ({type(error).__name__})")
        finally:
            self._forget(connection)

    def _reply(self, connection: socket.socket, peer: Peer) -> None:
        limits = self._limits
        lines = Lines(connection, longest_bytes=limits.request_bytes)
        try:
            request = lines.object(deadline=time.monotonic() + limits.request_seconds)
        except (LineError, TimeoutError) as error:
            what = str(error) if isinstance(error, LineError) else "no request in time"
            _refuse(connection, f"the agent got {what}: a request is one line of JSON")
            return
        if request is None:
            return
        ask = request.get("ask")
        if request.get("gua") != PROTOCOL or lines.unread:
            _refuse(connection, "the agent does not know this protocol: use its own version of gua")
        elif ask == "status":
            send_line(connection, self._status(), seconds=limits.answer_seconds)
        elif ask == "report":
            self._report(connection, peer)
        elif ask in self._conversations:
            self._talk(connection, peer, self._conversations[str(ask)], request, lines)
        else:
            known = ", ".join(["status", *self._conversations])
            _refuse(connection, f"the agent answers {known} and report, nothing else")

    def _talk(
        self, connection: socket.socket, peer: Peer, converse: Converse, request: Mapping[str, Any], lines: Lines
    ) -> None:
        with self._lock:
            is_in = not self._closing and self._talking.enter(connection, peer)
            if is_in:  # waiting for cards must not use up the limit for short requests
                self._open.peers.pop(connection, None)
        if not is_in:
            _refuse(connection, "too many wait for cards here: try again in a moment", busy=True)
            return
        try:
            converse(connection, peer, request, lines)
        except GuaError as error:
            complain(connection, str(error), error.exit_code)

    def _report(self, connection: socket.socket, peer: Peer) -> None:
        if self._answer is None:
            _refuse(connection, "this agent has no store here: query the store that its endpoint delivers to")
            return
        with self._lock:
            is_in = self._reports.enter(connection, peer)
        if not is_in:
            _refuse(connection, "the agent is making other reports: try again in a moment", busy=True)
            return
        connection.settimeout(None)
        self._answer(connection, peer)


def _is_owner(peer: Peer) -> bool:
    """Return whether the peer is the agent's own user or root, which other users' connections must not lock out."""
    return peer.uid in {0, os.geteuid()}


def _refuse(connection: socket.socket, words: str, *, busy: bool = False) -> None:
    """Send an error without waiting; ``busy`` means that the same request may succeed soon."""
    complain(connection, words, UnavailableError.exit_code, seconds=0, busy=busy)


def _listening(where: Listen) -> tuple[socket.socket, tuple[int, int]]:
    """Return a listening socket whose file has its mode from the start, and the file's (device, inode)."""
    path = where.path
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _replace_stale(path)
        # bind(2) creates the file with the socket's mode less the umask (unix_bind_bsd): closed until the chmod.
        os.fchmod(listener.fileno(), PRIVATE_MODE)
        with short_address(path) as address:
            listener.bind(address)
        identity = _set_mode(where)
        listener.listen(_BACKLOG)
        listener.setblocking(False)  # noqa: FBT003 - signature of the socket module
    except OSError as error:
        listener.close()
        msg = f"cannot listen at {path} ({error.strerror or error}): make its folder, or give another with --socket"
        raise UnavailableError(msg) from None
    except BaseException:
        listener.close()
        raise
    return listener, identity


def _set_mode(where: Listen) -> tuple[int, int]:
    """Set the mode of the socket's file; return its (device, inode). Raises UnavailableError if it was replaced.

    Uses a descriptor: another user who can write to the folder could swap the path between bind and chmod.
    """
    descriptor = os.open(where.path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.geteuid():
            msg = f"{where.path} was replaced by another user: choose a socket in a folder that only you can write to"
            raise UnavailableError(msg)
        Path(f"/proc/self/fd/{descriptor}").chmod(where.mode)
    finally:
        os.close(descriptor)
    return status.st_dev, status.st_ino


def _replace_stale(path: Path) -> None:
    """Remove a socket of this user that a killed agent left. Raises UnavailableError for any other file."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.geteuid():
        what = "another user's socket" if stat.S_ISSOCK(status.st_mode) else "no socket"
        msg = f"cannot listen at {path}: what is there is {what}; remove it, or give another path with --socket"
        raise UnavailableError(msg)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, short_address(path) as address:
        probe.settimeout(1)
        try:
            probe.connect(address)
        except ConnectionRefusedError:
            path.unlink()
            return
        except BlockingIOError:
            pass
    raise UnavailableError(f"another agent answers at {path}: see gua status, or give another path with --socket")
