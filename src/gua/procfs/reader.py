"""The kernel's own word on processes, this boot and this process's namespaces.

Opens no command line and no environment; for the former see :mod:`gua.procfs.command_line`. The root is a setting:
containers mount the host's /proc elsewhere, tests keep saved trees.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gua.procfs.parse import (
    INITIAL_PID_NAMESPACE,
    Stat,
    UserIds,
    parse_boot_time_ms,
    parse_hidepid,
    parse_root_mount,
    parse_stat,
    parse_uid,
    parse_user_ids,
)

_STAT_BYTES: Final = 4_096
_CHUNK_BYTES: Final = 16_384
# /proc/stat has a field for every interrupt and may have 100 kB; nothing here is larger.
_MOST_BYTES: Final = 4 * 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessRecord:
    """What /proc tells of one process; ``uid`` is the host's, ``cgroup`` the text of its cgroup file."""

    pid: int
    comm: str
    start_ticks: int
    uid: int | None
    cgroup: str | None


class ProcFs:
    """Reads a procfs tree. Nothing here raises: what cannot be read is ``None``."""

    def __init__(self, root: Path = Path("/proc")) -> None:
        self.root = root
        self._prefix = f"{root}/"
        self.ticks_per_second = os.sysconf("SC_CLK_TCK")
        # A living process stays in its user namespace.
        self.user_ids: UserIds = parse_user_ids(
            self._text("self/uid_map") or "", self._text("sys/kernel/overflowuid") or ""
        )

    def stat(self, pid: int) -> Stat | None:
        """Return a process's name and start: one file, cheap enough for every tick."""
        try:
            descriptor = os.open(f"{self._prefix}{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            # One line of at most a few hundred bytes, which the kernel hands out at once.
            return parse_stat(os.read(descriptor, _STAT_BYTES).decode("utf-8", "replace"))
        except OSError:
            return None
        finally:
            os.close(descriptor)

    def process(self, pid: int) -> ProcessRecord | None:
        """Return a process, ``None`` if it is not there, is hidden, or its pid passed to another while it was read."""
        stat = self.stat(pid)
        if stat is None:
            return None
        status = self._text(f"{pid}/status")
        cgroup = self._text(f"{pid}/cgroup")
        again = self.stat(pid)
        if again is not None and again.start_ticks != stat.start_ticks:
            return None
        uid = None if status is None else parse_uid(status)
        return ProcessRecord(
            pid=pid,
            comm=stat.comm,
            start_ticks=stat.start_ticks,
            uid=None if uid is None else self.user_ids.outside(uid),
            cgroup=cgroup,
        )

    def boot_id(self) -> str | None:
        """Return the random id of this boot."""
        text = self._text("sys/kernel/random/boot_id")
        return (text or "").strip() or None

    def boot_time_ms(self) -> int | None:
        """Return the moment of boot as Unix time in ms, as of now: it moves when the clock is set."""
        return parse_boot_time_ms(self._text("stat") or "")

    def in_initial_pid_namespace(self) -> bool:
        """Return whether this process surely runs in the host's own PID namespace.

        ``self`` is this process also in a procfs of an outer namespace, and its ``ns/pid`` is the namespace it
        runs in. So a container that mounts the host's /proc but has a PID namespace of its own is found out, and
        rightly: what the driver lists there depends on it. Older drivers list the host's pids
        (https://github.com/NVIDIA/nvidia-docker/issues/1483), newer ones translate pids to the caller's namespace
        and leave out all processes outside of it (``os_find_ns_pid`` in NVIDIA's open kernel modules). Neither
        can be told from the other by looking at a list, so it is not believed. A procfs in which this process
        has no pid has no ``self``: not known either.
        """
        try:
            return str((self.root / "self/ns/pid").readlink()) == INITIAL_PID_NAMESPACE
        except OSError:
            return False

    def shares_host_root(self) -> bool:
        """Return whether this process surely has the root file system of the host's first process.

        Only then are its users (/etc/passwd, the name service) the host's. Device and directory of the root
        mount are compared: both files may be read by everybody, and hardened services share them with the host.
        """
        mine = parse_root_mount(self._text("self/mountinfo") or "")
        return mine is not None and mine == parse_root_mount(self._text("1/mountinfo") or "")

    @property
    def host_passwd(self) -> Path:
        """Where the host's own users stand, seen from a container; opening it takes CAP_SYS_PTRACE."""
        return self.root / "1/root/etc/passwd"

    def hidepid(self) -> str | None:
        """Return how the procfs hides other users' processes, ``None`` if it does not."""
        return parse_hidepid(self._text("self/mountinfo") or "")

    def is_there(self) -> bool:
        """Return whether the root holds a procfs that can be read at all."""
        return self._text("stat") is not None

    def _text(self, path: str) -> str | None:
        try:
            descriptor = os.open(self._prefix + path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            content = os.read(descriptor, _CHUNK_BYTES)
            while len(content) < _MOST_BYTES:
                more = os.read(descriptor, _CHUNK_BYTES)
                if not more:
                    break
                content += more
        except OSError:
            return None
        finally:
            os.close(descriptor)
        # Names are bytes to the kernel: whatever is not UTF-8 is shown, and does not stop the tick.
        return content.decode("utf-8", "replace")
