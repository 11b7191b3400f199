"""Identity of a requester: the user that the kernel reports, or the container of its process."""

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
from gua.identity.process import container_id
from gua.procfs.reader import ProcFs
from gua.reservations.lifeline import open_pidfd
from gua.reservations.model import Reservation
from gua.state.socket_address import Peer

ADMIN_GROUP: Final = "gua-admin"
_SHOWN_DIGITS: Final = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Requester:
    """A requester. ``container`` is set for root of a container, which is no user of this host.

    ``start_ticks`` is the start of its process in kernel ticks, ``None`` if hidden. ``is_admin`` is whether it may end
    reservations of others.
    """

    pid: int
    uid: int
    owner: str
    start_ticks: int | None
    container: str | None = None
    is_admin: bool = False

    def has(self, reservation: Reservation) -> bool:
        """Return whether the requester owns the reservation."""
        return (reservation.uid, reservation.container) == (self.uid, self.container)


class Requesters:
    """Identifies the process at the other end of a connection; ``name`` maps a user id to a name."""

    def __init__(self, processes: ProcFs, name: Callable[[int], str]) -> None:
        self._processes = processes
        self._name = name
        own = processes.process(os.getpid())
        # The agent may itself be in a container: requesters in the same one count as local.
        self._own_container = None if own is None else container_id(own.cgroup or "")

    def start_ticks(self, pid: int) -> int | None:
        """Return the start time of a process in kernel ticks, ``None`` if it is not visible."""
        stat = self._processes.stat(pid)
        return None if stat is None else stat.start_ticks

    def identify(self, connection: socket.socket, peer: Peer) -> Requester:
        """Return the requester. Raises TransientError if its process has ended: the pid may be reused by now.

        Root in a container counts as the container. With mapped user ids, as in rootless Podman, the kernel reports the
        mapped user. Processes in a container never get administrator rights.
        """
        if peer.pid == 0:  # of another PID namespace: its container is unknown
            return Requester(pid=0, uid=peer.uid, owner=self._name(peer.uid), start_ticks=None)
        container, begun = self._container_and_start(connection, peer)
        requester = Requester(pid=peer.pid, uid=peer.uid, owner=self._name(peer.uid), start_ticks=begun)
        if container is None or container == self._own_container:
            return replace(requester, is_admin=is_admin(peer))
        if peer.uid == 0:
            return replace(requester, owner=f"container:{container[:_SHOWN_DIGITS]}", container=container)
        return requester

    def _container_and_start(self, connection: socket.socket, peer: Peer) -> tuple[str | None, int]:
        """Return the requester's container and start, read while its process surely lives. Raises TransientError."""
        begun = self.start_ticks(peer.pid)
        try:
            handle = None if begun is None else open_pidfd(peer.pid, begun, self.start_ticks, connection)
        except OSError as error:
            raise TransientError(f"the requester cannot be identified ({error.strerror}): try again") from None
        if begun is not None and handle is not None:
            try:
                record = self._processes.process(peer.pid)
                ended = select.poll()
                ended.register(handle, select.POLLIN)
                if record is not None and not ended.poll(0):
                    return container_id(record.cgroup or ""), begun
            finally:
                os.close(handle)
        raise TransientError("the requesting process has ended: try again")


def is_admin(peer: Peer) -> bool:
    """Return whether the user may end reservations of others: root, or a member of the group gua-admin."""
    if peer.uid == 0:
        return True
    with contextlib.suppress(KeyError, OSError):
        admin = grp.getgrnam(ADMIN_GROUP)
        return peer.gid == admin.gr_gid or pwd.getpwuid(peer.uid).pw_name in admin.gr_mem
    return False
