"""For whom the ticks of a spool are, read beside whoever fills it. Imports little: each report looks here first."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path


def destinations_of(path: Path) -> frozenset[str]:
    """Return where the ticks of the spool at ``path`` are to go, nothing if there is no sound one. Changes nothing."""
    return _destinations(path, "SELECT name FROM destinations")


def awaiting(path: Path) -> frozenset[str]:
    """Return which destinations lack ticks that the spool at ``path`` holds; otherwise as :func:`destinations_of`."""
    return _destinations(path, "SELECT name FROM destinations WHERE acknowledged_id < (SELECT max(id) FROM ticks)")


def _destinations(path: Path, query: str) -> frozenset[str]:
    if not os.access(path, os.F_OK):
        return frozenset()
    import sqlite3  # noqa: PLC0415 - where there is a spool

    from gua.spool.schema import APPLICATION_ID, pragma  # noqa: PLC0415 - as above

    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            if pragma(connection, "application_id") != APPLICATION_ID:
                return frozenset()
            return frozenset(name for (name,) in connection.execute(query))
    except sqlite3.Error:
        return frozenset()
