"""The texts of /proc, read into values; proc(5) describes each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

# include/linux/proc_ns.h: PROC_PID_INIT_INO, the same on every Linux host.
INITIAL_PID_NAMESPACE: Final = "pid:[4026531836]"
_START_FIELD: Final = 22
_FIRST_FIELD_AFTER_COMM: Final = 3
_ALL_USERS: Final = 4_294_967_295
_DEAD: Final = frozenset("ZXx")


class Stat(NamedTuple):
    """``/proc/<pid>/stat``: the process's name, its start in clock ticks since boot, its state's letter."""

    comm: str
    start_ticks: int
    state: str = "S"

    @property
    def is_dead(self) -> bool:
        """Whether it has ended and only waits to be reaped: its cgroup may be gone already."""
        return self.state in _DEAD


def parse_stat(text: str) -> Stat | None:
    """Return what ``/proc/<pid>/stat`` says, ``None`` if it is cut or is something else.

    The name stands in parentheses and may hold spaces and parentheses itself: it ends at the last one.
    """
    opened, closed = text.find("("), text.rfind(")")
    if opened < 0 or closed < opened:
        return None
    last = _START_FIELD - _FIRST_FIELD_AFTER_COMM
    fields = text[closed + 2 :].split(" ", last + 1)
    try:
        return Stat(text[opened + 1 : closed], int(fields[last]), fields[0])
    except (IndexError, ValueError):
        return None


def parse_uid(text: str) -> int | None:
    """Return the real user id in ``/proc/<pid>/status``: who started the process, also of a set-uid program."""
    for line in text.splitlines():
        name, _, values = line.partition(":")
        if name == "Uid":
            fields = values.split()
            return int(fields[0]) if fields and fields[0].isdecimal() else None
    return None


def parse_boot_time_ms(text: str) -> int | None:
    """Return the moment of boot in ``/proc/stat`` as Unix time in ms (whole seconds)."""
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "btime" and value.strip().isdecimal():
            return int(value) * 1000
    return None


@dataclass(frozen=True, slots=True)
class UserIds:
    """How the user ids that this process sees map to the namespace around its own (user_namespaces(7)).

    ``ranges`` are (first inside, first outside, how many). ``overflow`` stands for every user without a place here.
    """

    ranges: tuple[tuple[int, int, int], ...] = ((0, 0, _ALL_USERS),)
    overflow: int = 65_534

    @property
    def are_the_hosts(self) -> bool:
        """Whether an id means here what it means on the host, as in the initial user namespace."""
        return self.ranges == ((0, 0, _ALL_USERS),)

    def outside(self, uid: int) -> int | None:
        """Return the id outside, ``None`` if it may be anybody's."""
        if self.are_the_hosts:
            return uid
        if uid == self.overflow:
            return None
        return next((first + uid - inside for inside, first, many in self.ranges if 0 <= uid - inside < many), None)


def parse_user_ids(uid_map: str, overflow: str) -> UserIds:
    """Return what ``/proc/self/uid_map`` and ``/proc/sys/kernel/overflowuid`` say.

    Kernels without user namespaces have neither: ids are the host's then.
    """
    ranges = []
    for line in uid_map.splitlines():
        fields = line.split()
        if len(fields) == 3 and all(field.isdecimal() for field in fields):
            ranges.append((int(fields[0]), int(fields[1]), int(fields[2])))
    user_ids = UserIds(tuple(ranges)) if ranges else UserIds()
    return replace(user_ids, overflow=int(overflow)) if overflow.strip().isdecimal() else user_ids


def parse_root_mount(text: str) -> tuple[str, str] | None:
    """Return what is mounted at ``/`` in a ``mountinfo``: (device, directory on it), ``None`` if it does not tell.

    Mount ids differ from one mount namespace to the next, device and directory do not: a service with
    ``PrivateTmp=yes`` has the host's, a container has its own.
    """
    root = None
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) > 5 and fields[4] == "/":
            root = fields[2], fields[3]  # a later one lies on top
    return root


def parse_hidepid(text: str) -> str | None:
    """Return the ``hidepid`` option of the procfs at ``/proc`` in a ``mountinfo``, ``None`` if nothing is hidden."""
    hidden = None
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) > 5 and fields[4] == "/proc":
            options = dict(option.partition("=")[::2] for option in fields[-1].split(","))
            hidden = options.get("hidepid")
    return None if hidden in {None, "0", "off"} else hidden
