"""What an agent recorded, from its own spool: each tick's commit leaves a copy that no delivery deletes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from gua.spool.queue import Spool
from gua.state.compression import decompress

_WITNESS = """
CREATE TABLE recorded (blob BLOB NOT NULL, id INTEGER NOT NULL);
CREATE TRIGGER record AFTER INSERT ON ticks BEGIN INSERT INTO recorded VALUES (new.blob, new.id); END;
"""


def watch(spool: Path) -> None:
    """Make a spool whose every tick is copied in the transaction that stores it."""
    spool.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    Spool(spool, destinations=["endpoint"]).close()
    with closing(sqlite3.connect(spool)) as database:
        database.executescript(_WITNESS)


def recorded(spool: Path) -> list[bytes]:
    """Return the request of each tick that was ever committed, oldest first; fails if the copies are not all there."""
    assert [file.name for file in spool.parent.glob("*corrupt*")] == []
    with closing(sqlite3.connect(spool, isolation_level=None, timeout=30)) as database:
        database.execute("BEGIN")  # both answers are of one moment, beside an agent that goes on
        copies = database.execute("SELECT id, blob FROM recorded ORDER BY id").fetchall()
        given = database.execute("SELECT seq FROM sqlite_sequence WHERE name = 'ticks'").fetchone()
    # Ids are given once, so that a copy for each of them is a copy of every tick.
    assert [number for number, _ in copies] == list(range(1, (given[0] if given else 0) + 1))
    return [decompress(blob) for _, blob in copies]


def recorded_count(spool: Path) -> int:
    """Return how many ticks were ever committed."""
    return _count(spool, "recorded")


def waiting(spool: Path) -> int:
    """Return how many ticks are not delivered yet."""
    return _count(spool, "ticks")


def _count(spool: Path, table: str) -> int:
    with closing(sqlite3.connect(spool, timeout=30)) as database:
        return int(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
