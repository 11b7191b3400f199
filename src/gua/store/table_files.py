"""Table files of an embedded store: merges parts and removes merged ones, as a server does in the background.

Measured with engine 26.9: parts replaced by a merge stay on disk while the process lives, and the next process
retains them too. They are removed here, after the engine is closed and the new parts are on disk.
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
    """Merge every partition with more than ``most_parts`` parts into one; return the number of merged partitions."""
    crowded = client.query(_CROWDED, parameters={"most": most_parts}).result_rows
    for table, partition in crowded:
        client.command(f"OPTIMIZE TABLE gua.{table} PARTITION ID '{partition}' FINAL")
    return len(crowded)


def replaced_parts(client: Client, data: Path) -> list[Path]:
    """Return the directories below ``data`` of parts whose blocks an active part contains.

    Listed from disk, as the engine loads its own list of them gradually. A background merge's newer part has a higher
    level than the active part: the latter does not replace it.
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
    """Fields of a part's name: partition, first and last block, merge level."""

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
    """Return the fields of a part's directory name; ``None`` if it is not a part's."""
    match = _PART.fullmatch(name)
    if not match:
        return None
    return _Part(match["partition"], int(match["first"]), int(match["last"]), int(match["level"]))


def remove_parts(directories: list[Path]) -> None:
    """Remove part directories after their replacements are synced to disk. Only call with the engine closed."""
    if not directories:
        return
    sync_filesystem(directories[0].parent)
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def sync_filesystem(path: Path) -> None:
    """Sync the file system that contains ``path`` to its disk (syncfs(2)). Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
    finally:
        os.close(descriptor)
