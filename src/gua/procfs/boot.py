"""Which machine this is, and its moment of boot: the first answer, as later ones move whenever the clock is set.

A process is known by its start, which is counted from boot. If boot moved by a second between two runs, every
process would look like a new one; so the first answer of a boot is kept in a small file.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Final, Protocol

_LONGEST_BYTES: Final = 1024


class Boot(Protocol):
    """A procfs, as far as this needs it."""

    def boot_id(self) -> str | None:
        """Return the id of this boot."""
        ...

    def boot_time_ms(self) -> int | None:
        """Return the moment of boot as of now, Unix time in ms."""
        ...


def machine_id(path: Path = Path("/etc/machine-id")) -> str | None:
    """Return the id of this installation of the system (machine-id(5)), ``None`` where there is none."""
    try:
        return path.read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def stored_boot_time_ms(boot: Boot, path: Path) -> int | None:
    """Return this boot's moment (Unix time, ms) as ``path`` keeps it; the first call of a boot writes it there.

    Without a boot id, or where the file cannot be written, the answer is that of now.
    """
    boot_id = boot.boot_id()
    if boot_id is None:
        return boot.boot_time_ms()
    kept = _kept(path, boot_id)
    if kept is not None:
        return kept
    boot_time_ms = boot.boot_time_ms()
    if boot_time_ms is not None:
        # Failing to keep it costs the identity of processes across runs after a clock step, not the tick.
        with contextlib.suppress(OSError):
            _keep(path, boot_id, boot_time_ms)
    return boot_time_ms


def _kept(path: Path, boot_id: str) -> int | None:
    try:
        # Neither through a link nor waiting for whoever writes into a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            content = json.loads(file.read(_LONGEST_BYTES) or b"")
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or content.get("boot_id") != boot_id:
        return None
    boot_time_ms = content.get("boot_time_ms")
    return boot_time_ms if type(boot_time_ms) is int else None


def _keep(path: Path, boot_id: str, boot_time_ms: int) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"boot_id": boot_id, "boot_time_ms": boot_time_ms}, file)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
