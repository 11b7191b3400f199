"""The idle clocks of the last tick, kept with its mark: an agent that starts goes on where the last one ended.

They have a table of their own, made with the first of them, so that an older gua still opens the file; it is
believed only beside the mark that it was stored with. A damaged file that is replaced loses them.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from gua.state.compression import compress, decompress

if TYPE_CHECKING:
    from gua.core.idleness import IdleCounter, IdleCounters, Key

_TABLE = """
CREATE TABLE IF NOT EXISTS idle_clocks (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  ts_ms INTEGER NOT NULL,
  blob BLOB NOT NULL
)
"""


def put(database: sqlite3.Connection, ts_ms: int, clocks: IdleCounters) -> None:
    """Store the clocks beside the mark of that moment. Belongs into its transaction."""
    if clocks or _is_there(database):
        from gua.core.idleness import dumps  # noqa: PLC0415 - for an agent: who lands what waits stores none

        database.execute(_TABLE)
        database.execute("INSERT OR REPLACE INTO idle_clocks VALUES (1, ?, ?)", (ts_ms, compress(dumps(clocks))))


def get(database: sqlite3.Connection, ts_ms: int) -> dict[Key, IdleCounter]:
    """Return the clocks that were stored beside the mark of that moment; none if there are no such ones."""
    if not _is_there(database):
        return {}
    match database.execute("SELECT blob FROM idle_clocks WHERE ts_ms = ?", (ts_ms,)).fetchone():
        case (bytes(blob),):
            from gua.core.idleness import loads  # noqa: PLC0415 - as above

            try:
                return loads(decompress(blob))
            except ValueError:
                return {}
    return {}


def _is_there(database: sqlite3.Connection) -> bool:
    row = database.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'idle_clocks'").fetchone()
    return row is not None
