"""What the spool counts over its life, by name."""

from __future__ import annotations

import sqlite3
from typing import Final

from gua.spool.errors import DamagedError

DROPPED: Final = "dropped"
SALVAGED: Final = "salvaged"
LOST: Final = "lost"
UNKNOWN_LOSSES: Final = "untold"
"""How often a damaged spool did not tell how many ticks were lost with it."""
REPAIRS: Final = "repairs"
"""How often a damaged or removed spool was begun anew."""
HOLES_TO: Final = "holes_to"
"""Up to this id ticks may be missing, and that is known; above it ids follow one another without a hole."""
REFUSED: Final = "refused:"
DELIVERED: Final = "delivered:"
DELIVERED_MS: Final = "delivered_ms:"
"""When a destination last got ticks, Unix ms."""


def all_counters(database: sqlite3.Connection) -> dict[str, int]:
    """Return every counter. Raises DamagedError if one is no number."""
    counted: dict[str, int] = dict(database.execute("SELECT name, count FROM counters"))
    if not all(isinstance(count, int) for count in counted.values()):
        raise DamagedError
    return counted


def put(database: sqlite3.Connection, name: str, number: int) -> None:
    """Keep a number under that name."""
    database.execute("INSERT OR REPLACE INTO counters VALUES (?, ?)", (name, number))


def add(database: sqlite3.Connection, name: str, more: int) -> None:
    """Count ``more`` under that name."""
    database.execute(
        "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET count = count + excluded.count",
        (name, more),
    )
