"""The local socket: what the agent tells the users of its host. Whatever they send, the agent goes on.

A request is one line of JSON, ``{"gua":1,"ask":"status"}``: "ping" and "status" are answered with one line, "report"
hands the connection on to ``answer``, other names to the conversation that has the name. Anything that is wrong gets
``{"error": words, "exit_code": number}`` and the end of the connection.
"""

from __future__ import annotations

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
from gua.local_socket.peer import LineError, Lines, Peer, complain, peer_of, send_line
from gua.state.socket_address import address_of

PROTOCOL: Final = 1
PRIVATE_MODE: Final = 0o600
PUBLIC_MODE: Final = 0o666
_BACKLOG: Final = 64
_PAUSE_SECONDS: Final = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Listen:
    """Where to listen: a path, and the mode of its file. With 0600 only its owner and root are answered."""

    path: Path
    mode: int = PRIVATE_MODE

    @property
    def public(self) -> bool:
        """Whether every user of the host may ask."""
        return bool(self.mode & 0o006)


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How much users may ask of the agent at a time; seconds and bytes bound each request.

    Its own user and root may ask also where the others take all there is.
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
"""Has a conversation that began with this request, and returns when it is over; more may be read by the lines."""


class _Room:
    """The connections of one kind: ``most`` in all, where the agent's own user and root may come on top."""

    def __init__(self, most: int, most_per_uid: int) -> None:
        self._most = most
        self._most_per_uid = most_per_uid
        self.peers: dict[socket.socket, Peer] = {}

    def enter(self, connection: socket.socket, peer: Peer) -> bool:
        """Count a connection in; return False where there is no room for it."""
        of_user = sum(one.uid == peer.uid for one in self.peers.values())
        has_room = (len(self.peers) < self._most or _is_owner(peer)) and of_user < self._most_per_uid
        if has_room:
            self.peers[connection] = peer
        return has_room


class LocalServer:
    """Answers on unix sockets from a thread of its own, with a short-lived thread for each connection.

    ``status`` returns the status object; it is called by many threads. ``answer`` serves a report on a
    connection and returns when it is done; the connection is closed after it. Where it is ``None``, reports are
    refused. ``conversations`` are further requests by their name; they may take hours, and have room of their own.
    :meth:`close` shuts every connection down: ``answer`` and conversations must then come to an end.
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
        """Make the sockets and begin to answer.

        Raises UnavailableError where a path cannot be used: it is somebody else's, or another agent answers there.
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
        """Stop answering, cut every connection, and remove the sockets that are still ours."""
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
                found = one.path.lstat()
                if (found.st_dev, found.st_ino) == identity:
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
                time.sleep(_PAUSE_SECONDS)  # it stays readable: without a pause this thread would spin
            return
        try:
            peer = peer_of(connection)
            refusal = self._admit(connection, peer, where)
            if refusal is not None:
                _tell(connection, refusal, busy=where.public or _is_owner(peer))
                connection.close()
                return
            threading.Thread(target=self._converse, args=(connection, peer), name="gua-answer", daemon=True).start()
        except Exception:  # noqa: BLE001 - they are gone already, or there is no room for a thread now
            self._forget(connection)

    def _admit(self, connection: socket.socket, peer: Peer, where: Listen) -> str | None:
        """Count a connection in, or return why not."""
        if not where.public and not _is_owner(peer):
            return "this socket is private: only the agent's own user and root may ask here"
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
            pass  # they are gone, or take too long to read: theirs to try again
        except Exception as error:  # noqa: BLE001 - nothing that a user sends may reach the agent
            _tell(connection, f"the agent could not answer ({type(error).__name__})")
        finally:
            self._forget(connection)

    def _reply(self, connection: socket.socket, peer: Peer) -> None:
        limits = self._limits
        lines = Lines(connection, longest_bytes=limits.request_bytes)
        try:
            request = lines.object(deadline=time.monotonic() + limits.request_seconds)
        except (LineError, TimeoutError) as error:
            what = str(error) if isinstance(error, LineError) else "no request in time"
            _tell(connection, f"the agent got {what}: a request is one line of JSON")
            return
        if request is None:
            return
        ask = request.get("ask")
        if request.get("gua") != PROTOCOL or lines.unread:
            _tell(connection, "the agent does not know this protocol: use its own version of gua")
        elif ask == "ping":
            send_line(connection, {"gua": PROTOCOL, "pid": os.getpid()}, seconds=limits.answer_seconds)
        elif ask == "status":
            send_line(connection, self._status(), seconds=limits.answer_seconds)
        elif ask == "report":
            self._report(connection, peer)
        elif ask in self._conversations:
            self._talk(connection, peer, self._conversations[str(ask)], request, lines)
        else:
            known = ", ".join(["ping", "status", *self._conversations])
            _tell(connection, f"the agent answers {known} and report, nothing else")

    def _talk(
        self, connection: socket.socket, peer: Peer, converse: Converse, request: Mapping[str, Any], lines: Lines
    ) -> None:
        with self._lock:
            is_in = not self._closing and self._talking.enter(connection, peer)
            if is_in:  # who waits for cards takes no room from those who only ask how things are
                self._open.peers.pop(connection, None)
        if not is_in:
            _tell(connection, "too many wait for cards here: try again in a moment", busy=True)
            return
        try:
            converse(connection, peer, request, lines)
        except GuaError as error:
            complain(connection, str(error), error.exit_code)

    def _report(self, connection: socket.socket, peer: Peer) -> None:
        if self._answer is None:
            _tell(connection, "this agent keeps no store here: ask where its endpoint delivers")
            return
        with self._lock:
            is_in = self._reports.enter(connection, peer)
        if not is_in:
            _tell(connection, "the agent is making other reports: try again in a moment", busy=True)
            return
        connection.settimeout(None)
        self._answer(connection, peer)


def _is_owner(peer: Peer) -> bool:
    """Return whether it is the agent's own user or root, whom other users' connections must not keep out."""
    return peer.uid in {0, os.geteuid()}


def _tell(connection: socket.socket, words: str, *, busy: bool = False) -> None:
    """Say what is wrong, without waiting for anybody; ``busy`` where the same request may do better soon."""
    complain(connection, words, UnavailableError.exit_code, seconds=0, busy=busy)


def _listening(where: Listen) -> tuple[socket.socket, tuple[int, int]]:
    """Return a socket that listens at a path, with its file's mode from the first moment, and the file's identity."""
    path = where.path
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _replace_stale(path)
        # bind gives the file the socket's own mode less the umask (unix_bind_bsd), so nobody gets in before chmod.
        os.fchmod(listener.fileno(), PRIVATE_MODE)
        with address_of(path) as address:
            listener.bind(address)
        identity = _give_mode(where)
        listener.listen(_BACKLOG)
        listener.setblocking(False)  # noqa: FBT003 - as in the socket module
    except OSError as error:
        listener.close()
        msg = f"cannot listen at {path} ({error.strerror or error}): make its folder, or give another with --socket"
        raise UnavailableError(msg) from None
    except BaseException:
        listener.close()
        raise
    return listener, identity


def _give_mode(where: Listen) -> tuple[int, int]:
    """Give the socket's file its mode and return its identity.

    By its open file: whoever may write the folder could put a link to another file in its place meanwhile.
    """
    descriptor = os.open(where.path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
            msg = f"{where.path} was replaced by somebody: name a socket in a folder that only you may write"
            raise UnavailableError(msg)
        Path(f"/proc/self/fd/{descriptor}").chmod(where.mode)
    finally:
        os.close(descriptor)
    return found.st_dev, found.st_ino


def _replace_stale(path: Path) -> None:
    """Remove the socket that an agent left which was killed; nothing else, and none that is not ours."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        what = "somebody else's socket" if stat.S_ISSOCK(found.st_mode) else "no socket"
        msg = f"cannot listen at {path}: what is there is {what}; remove it, or give another path with --socket"
        raise UnavailableError(msg)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, address_of(path) as address:
        probe.settimeout(1)
        try:
            probe.connect(address)
        except ConnectionRefusedError:
            path.unlink()
            return
        except BlockingIOError:
            pass
    msg = f"another agent answers at {path}: see gua status, or give another path with --socket"
    raise UnavailableError(msg)
