"""The kernel's own word on processes, this boot and this process's namespace.

Never reads a command line or an environment. The root is a setting: containers mount the host's
/proc elsewhere, tests keep saved trees.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gpu_usage_audit.procfs.parse import INITIAL_PID_NAMESPACE, parse_boot_time_ms, parse_stat, parse_uid


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessRecord:
    """What /proc tells of one process; ``cgroup`` is the text of its cgroup file."""

    pid: int
    comm: str
    start_ticks: int
    uid: int | None
    cgroup: str | None


class ProcFs:
    """Reads a procfs tree. Nothing here raises: what cannot be read is ``None``."""

    def __init__(self, root: Path = Path("/proc")) -> None:
        self._root = root
        self.ticks_per_second = os.sysconf("SC_CLK_TCK")

    def process(self, pid: int) -> ProcessRecord | None:
        """Return a process, ``None`` if it is not there, is hidden, or its pid passed to another while it was read."""
        stat = parse_stat(self._text(f"{pid}/stat") or "")
        if stat is None:
            return None
        status = self._text(f"{pid}/status")
        cgroup = self._text(f"{pid}/cgroup")
        again = parse_stat(self._text(f"{pid}/stat") or "")
        if again is not None and again.start_ticks != stat.start_ticks:
            return None
        return ProcessRecord(
            pid=pid,
            comm=stat.comm,
            start_ticks=stat.start_ticks,
            uid=None if status is None else parse_uid(status),
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
        """Return whether this process surely runs in the host's own PID namespace."""
        try:
            return str((self._root / "self/ns/pid").readlink()) == INITIAL_PID_NAMESPACE
        except OSError:
            return False

    def is_there(self) -> bool:
        """Return whether the root holds a procfs that can be read at all."""
        return self._text("stat") is not None

    def _text(self, path: str) -> str | None:
        try:
            # Names are bytes to the kernel: whatever is not UTF-8 is shown, and does not stop the tick.
            return (self._root / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
