"""The files of an embedded store's tables: merged and removed as a server's background threads would.

Measured on engine 26.9: parts that a merge replaced stay on the disk however long the process lives, and the next one
keeps them too. Their directories are removed here, once the engine is closed and the disk has the new ones.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

MOST_PARTS: Final = 8
_CROWDED: Final = """
SELECT
    table,
    partition_id
FROM system.parts
WHERE active AND database = 'gua'
GROUP BY
    table,
    partition_id
HAVING count() > {most:UInt32}
ORDER BY
    table,
    partition_id
"""
_ACTIVE: Final = "SELECT path FROM system.parts WHERE active AND database = 'gua'"
_PART: Final = re.compile(r"(?P<partition>[^_]+)_(?P<first>\d+)_(?P<last>\d+)_(?P<level>\d+)(?:_\d+)?")


def merge_crowded(client: Client, *, most_parts: int = MOST_PARTS) -> int:
    """Merge every partition of more than ``most_parts`` parts into one, and return how many those were."""
    crowded = client.query(_CROWDED, parameters={"most": most_parts}).result_rows
    for table, partition in crowded:
        client.command(f"OPTIMIZE TABLE gua.{table} PARTITION ID '{partition}' FINAL")
    return len(crowded)


def replaced_parts(client: Client, data: Path) -> list[Path]:
    """Return the directories, all below ``data``, of parts that an active part replaces: it has all their blocks.

    They are looked for on the disk, as the engine loads its list of them only bit by bit. A part that a merge in the
    background made meanwhile replaces an active one, and is not replaced by it: its level is higher.
    """
    active = {Path(row[0]) for row in client.query(_ACTIVE).result_rows}
    tables: dict[Path, list[_Part]] = {}
    for path in active:
        if (part := _part(path.name)) and data.resolve() in path.resolve().parents:
            tables.setdefault(path.parent, []).append(part)
    return [
        directory
        for table, replacing in tables.items()
        for directory in sorted(table.iterdir())
        if directory not in active
        and (part := _part(directory.name))
        and any(each.replaces(part) for each in replacing)
    ]


class _Part(NamedTuple):
    """What the name of a part tells: its partition, its first and last block, how often it was merged."""

    partition: str
    first: int
    last: int
    level: int

    def replaces(self, other: _Part) -> bool:
        return (
            self.partition == other.partition
            and self.first <= other.first
            and other.last <= self.last
            and other.level < self.level
        )


def _part(name: str) -> _Part | None:
    """Return what a part's name tells, ``None`` where it is not a part's."""
    match = _PART.fullmatch(name)
    if not match:
        return None
    return _Part(match["partition"], int(match["first"]), int(match["last"]), int(match["level"]))


def remove_parts(directories: list[Path]) -> None:
    """Remove the directories, after the parts that replace them have reached the disk. Only with the engine closed."""
    if not directories:
        return
    sync_filesystem(directories[0].parent)
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def sync_filesystem(path: Path) -> None:
    """Write everything of the file system that holds ``path`` to its disk (syncfs(2)). Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
    finally:
        os.close(descriptor)
