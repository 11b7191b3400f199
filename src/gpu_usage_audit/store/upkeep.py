"""What a server's background threads do and an embedded engine does not: merge parts, remove merged ones.

Measured on engine 26.9: parts that a merge replaced stay on the disk however long the process lives, and the
next one keeps them too. Their directories are removed here, once the engine is closed and the disk has the new ones.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

MOST_PARTS = 8
_CROWDED = """
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
_ACTIVE = "SELECT path FROM system.parts WHERE active AND database = 'gua'"
_PART = re.compile(r"(?P<partition>[^_]+)_(?P<first>\d+)_(?P<last>\d+)_(?P<level>\d+)(?:_\d+)?")


def merge_crowded(client: Client, *, most_parts: int = MOST_PARTS) -> int:
    """Merge every partition of more than ``most_parts`` parts into one, and return how many those were."""
    crowded = client.query(_CROWDED, parameters={"most": most_parts}).result_rows
    for table, partition in crowded:
        client.command(f"OPTIMIZE TABLE gua.{table} PARTITION ID '{partition}' FINAL")
    return len(crowded)


def replaced_parts(client: Client, data: Path) -> list[Path]:
    """Return the directories, all below ``data``, of parts that an active part covers: it has all their blocks.

    They are looked for on the disk, as the engine loads its list of them only bit by bit.
    """
    active = [Path(row[0]) for row in client.query(_ACTIVE).result_rows]
    tables: dict[Path, list[tuple[str, int, int]]] = {}
    for path in active:
        if (blocks := _blocks(path.name)) and data.resolve() in path.resolve().parents:
            tables.setdefault(path.parent, []).append(blocks)
    kept = {path.name for path in active}
    return [
        directory
        for table, covering in tables.items()
        for directory in sorted(table.iterdir())
        if directory.name not in kept and (blocks := _blocks(directory.name)) and _covered(blocks, covering)
    ]


def _blocks(name: str) -> tuple[str, int, int] | None:
    """Return a part's partition and its first and last block, ``None`` where the name is not a part's."""
    found = _PART.fullmatch(name)
    return (found["partition"], int(found["first"]), int(found["last"])) if found else None


def _covered(blocks: tuple[str, int, int], covering: list[tuple[str, int, int]]) -> bool:
    partition, first, last = blocks
    return any(other == partition and low <= first and last <= high for other, low, high in covering)


def remove_parts(directories: list[Path]) -> None:
    """Remove the directories, after the parts that replace them have reached the disk. Only with the engine closed."""
    if not directories:
        return
    os.sync()
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
