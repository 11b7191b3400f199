"""Read-only check for pending ticks in a spool that others write. Imports little: each report calls it first."""

import os
from contextlib import closing
from pathlib import Path


def read_destinations(path: Path) -> frozenset[str]:
    """Return the destinations of the spool at ``path``; empty without a valid spool. Writes nothing."""
    return _destinations(path, "SELECT name FROM destinations")


def awaiting(path: Path) -> frozenset[str]:
    """Return the destinations with pending ticks in the spool at ``path``; empty without a valid spool."""
    return _destinations(path, "SELECT name FROM destinations WHERE acknowledged_id < (SELECT max(id) FROM ticks)")


def _destinations(path: Path, query: str) -> frozenset[str]:
    if not os.access(path, os.F_OK):
        return frozenset()
    import sqlite3  # noqa: PLC0415 - only needed if a spool exists

    from gua.spool.schema import APPLICATION_ID, pragma  # noqa: PLC0415 - as above

    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            if pragma(connection, "application_id") != APPLICATION_ID:
                return frozenset()
            return frozenset(name for (name,) in connection.execute(query))
    except sqlite3.Error:
        return frozenset()
