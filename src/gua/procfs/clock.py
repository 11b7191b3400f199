"""The host's clocks, its boot time, and its machine id.

A process is identified by its start, which is relative to boot. If the boot time changed by a second between two agent
starts, every process would seem new. So the first value of a boot is stored in a small file.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Final

from gua.procfs.reader import ProcFs

_LONGEST_BYTES: Final = 1024


def machine_id(path: Path = Path("/etc/machine-id")) -> str | None:
    """Return the id of this operating system installation (machine-id(5)), ``None`` without one."""
    try:
        return path.read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def stored_boot_time_ms(procfs: ProcFs, path: Path) -> int | None:
    """Return this boot's time [Unix ms] from the file ``path``; the first call of a boot writes the file.

    Without a boot id, or if the file cannot be written, return the current value.
    """
    boot_id = procfs.boot_id()
    if boot_id is None:
        return procfs.boot_time_ms()
    stored_ms = _stored_ms(path, boot_id)
    if stored_ms is not None:
        return stored_ms
    boot_time_ms = procfs.boot_time_ms()
    if boot_time_ms is not None:
        # Without the file, processes lose their identity across agent starts after a clock step. Ticks go on.
        with contextlib.suppress(OSError):
            temporary = path.with_name(f"{path.name}.{os.getpid()}")
            try:
                descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    json.dump({"boot_id": boot_id, "boot_time_ms": boot_time_ms}, file)
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
    return boot_time_ms


def _stored_ms(path: Path, boot_id: str) -> int | None:
    try:
        # Does not follow a link and does not wait for the writer of a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            content = json.loads(file.read(_LONGEST_BYTES) or b"")
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or content.get("boot_id") != boot_id:
        return None
    boot_time_ms = content.get("boot_time_ms")
    return boot_time_ms if type(boot_time_ms) is int else None


class SystemClock:
    """Wall clock, CLOCK_MONOTONIC (which stops in suspend) and the kernel's boot id."""

    def __init__(self, procfs: ProcFs) -> None:
        # The boot id cannot change during the lifetime of a process.
        self._boot_id = procfs.boot_id()

    def wall_ms(self) -> int:
        """Return the wall clock as Unix time in ms."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return CLOCK_MONOTONIC in ms."""
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000_000

    def boot_id(self) -> str | None:
        """Return the id of this boot, ``None`` if /proc does not have it."""
        return self._boot_id
