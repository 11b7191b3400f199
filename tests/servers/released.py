"""Schemas of earlier versions, as ``gua schema show`` printed them then.

Views of reports are there by name alone, as every upgrade makes them anew. A statement whose name has ``(server)`` or
``(embedded)`` after it is of that form alone; the others differ in nothing but the rights of a server's views and the
settings of an embedded store's tables.
"""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "schema"
VERSIONS = sorted(int(file.stem) for file in FOLDER.glob("*.sql"))
_NAMED = re.compile(r"^-- (?P<name>\d\d_\S+?)(?: \((?P<form>server|embedded)\))?\n", re.MULTILINE)
_RIGHTS = "DEFINER = CURRENT_USER SQL SECURITY DEFINER"
_SETTINGS = "SETTINGS auto_statistics_types = '', refresh_statistics_interval = 0"


def released(version: int, form: str) -> list[tuple[str, str]]:
    """Return name and text of every statement of a released schema; ``form`` is server or embedded."""
    # Around each statement its name and its form, which most have not.
    _, *parts = _NAMED.split((FOLDER / f"{version}.sql").read_text("utf-8"))
    each = zip(parts[::3], parts[1::3], (sql.strip().removesuffix(";") for sql in parts[2::3]), strict=True)
    found = [(name, sql) for name, only, sql in each if only in {None, form}]
    other = _SETTINGS if form == "server" else _RIGHTS
    return [(name, sql.replace(other, "")) for name, sql in found]
