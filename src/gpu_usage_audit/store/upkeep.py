"""What a server's background threads do and an embedded engine does not: merge parts, remove merged ones.

Measured on engine 26.9: parts that a merge replaced stay on the disk however long the process lives, and the
next one keeps them too. Their directories are removed here, once the engine is closed and the disk has the new ones.
"""

from __future__ import annotations

import os
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
_REPLACED = "SELECT path FROM system.parts WHERE NOT active AND database = 'gua'"


def merge_crowded(client: Client, *, most_parts: int = MOST_PARTS) -> int:
    """Merge every partition of more than ``most_parts`` parts into one, and return how many those were."""
    crowded = client.query(_CROWDED, parameters={"most": most_parts}).result_rows
    for table, partition in crowded:
        client.command(f"OPTIMIZE TABLE gua.{table} PARTITION ID '{partition}' FINAL")
    return len(crowded)


def replaced_parts(client: Client, data: Path) -> list[Path]:
    """Return the directories, all below ``data``, of the parts that merges have replaced."""
    paths = [Path(row[0]) for row in client.query(_REPLACED).result_rows]
    return [path for path in paths if data.resolve() in path.resolve().parents]


def remove_parts(directories: list[Path]) -> None:
    """Remove the directories, after the parts that replace them have reached the disk. Only with the engine closed."""
    if not directories:
        return
    os.sync()
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
