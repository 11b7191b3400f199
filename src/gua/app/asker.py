"""Who asks for cards: the user that the kernel names, or the container that a process runs in."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import select
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from gua.core.errors import TransientError
from gua.identity.cgroup import container_id
from gua.local_socket.peer import Peer
from gua.procfs.reader import ProcFs
from gua.reservations.lifeline import pidfd_of_peer
from gua.reservations.model import Reservation

ADMIN_GROUP: Final = "gua-admin"
_SHOWN_DIGITS: Final = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Asker:
    """Who asks. ``container`` is set where a container's root asks, who is nobody on this host.

    ``start_ticks`` is the start of the process that asks, ``None`` where it cannot be seen. ``is_admin`` is whether
    others' reservations may be ended.
    """

    pid: int
    uid: int
    owner: str
    start_ticks: int | None
    container: str | None = None
    is_admin: bool = False

    def has(self, reservation: Reservation) -> bool:
        """Return whether a reservation is theirs."""
        return (reservation.uid, reservation.container) == (self.uid, self.container)


class Askers:
    """Tells who is at the other end of a connection; ``name`` names a user of this host."""

    def __init__(self, processes: ProcFs, name: Callable[[int], str]) -> None:
        self._processes = processes
        self._name = name
        own = processes.process(os.getpid())
        # A shared "host" may itself be a container: who asks from within the same one is at home.
        self._own_container = None if own is None else container_id(own.cgroup or "")

    def start_ticks(self, pid: int) -> int | None:
        """Return when a process began, in ticks of the kernel; ``None`` if it cannot be seen."""
        stat = self._processes.stat(pid)
        return None if stat is None else stat.start_ticks

    def who(self, connection: socket.socket, peer: Peer) -> Asker:
        """Return who asks. Raises TransientError where they have ended meanwhile: their pid may be another's by now.

        Root of a container is the container, unless its user ids are others on the host, as of rootless Podman: then
        the kernel names the user to whom it is mapped. Nobody in a container ends others' reservations.
        """
        if peer.pid == 0:  # of another PID namespace: it cannot be told where it runs
            return Asker(pid=0, uid=peer.uid, owner=self._name(peer.uid), start_ticks=None)
        container, begun = self._place(connection, peer)
        asker = Asker(pid=peer.pid, uid=peer.uid, owner=self._name(peer.uid), start_ticks=begun)
        if container is None or container == self._own_container:
            return replace(asker, is_admin=is_admin(peer))
        if peer.uid == 0:
            return replace(asker, owner=f"container:{container[:_SHOWN_DIGITS]}", container=container)
        return asker

    def _place(self, connection: socket.socket, peer: Peer) -> tuple[str | None, int]:
        """Return the container of the process that asks, and its start, of that process and no later one."""
        try:
            found = pidfd_of_peer(connection, peer.pid, self.start_ticks)
        except OSError as error:
            raise TransientError(f"who asks cannot be told ({error.strerror}): try again") from None
        if found is not None:
            handle, begun = found
            try:
                record = self._processes.process(peer.pid)
                ended = select.poll()
                ended.register(handle, select.POLLIN)
                if record is not None and not ended.poll(0):
                    return container_id(record.cgroup or ""), begun
            finally:
                os.close(handle)
        raise TransientError("who asked has ended: ask again")


def is_admin(peer: Peer) -> bool:
    """Return whether a user of this host may end others' reservations: root, and who is in the group gua-admin."""
    if peer.uid == 0:
        return True
    with contextlib.suppress(KeyError, OSError):
        admin = grp.getgrnam(ADMIN_GROUP)
        return peer.gid == admin.gr_gid or pwd.getpwuid(peer.uid).pw_name in admin.gr_mem
    return False
