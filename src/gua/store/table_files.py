"""What the files of an embedded store's tables say about their rows, looked at without the engine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def state_of(store: Path, tables: Iterable[str]) -> list[object] | None:
    """Return what differs, as JSON can hold it, once rows of these tables of ``gua`` differ; ``None`` if unknown.

    A part of a MergeTree never changes. Whatever a process, of whichever version, does to rows renames another part
    into the table's folder, before anybody sees it: its name is in this state, and the moment of the folder's change,
    which nobody can set. A copy of the store has other folders, a table that was made anew another definition.
    After a crash of the machine rows may be gone that were not on the disk yet: the state is of one boot.
    """
    try:
        state: list[object] = [_BOOT_ID.read_text("ascii").strip()]
        for table in tables:
            state.append(_identity((store / "data" / "metadata" / "gua" / f"{table}.sql").stat()))
            state.append(_folder(store / "data" / "data" / "gua" / table))
    except (OSError, UnicodeDecodeError):
        return None
    return state


def _folder(path: Path) -> list[object]:
    """Return what a folder is and what lies in it. Opened anew, also a network file system looks once more."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # First: what comes in between has another moment of change the next time, or another name.
        return [_identity(os.fstat(descriptor)), sorted(os.listdir(descriptor))]  # noqa: PTH208 - of the very folder that was opened
    finally:
        os.close(descriptor)


def _identity(found: os.stat_result) -> list[int]:
    return [found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns]
