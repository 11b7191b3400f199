"""Schemas of earlier versions, as ``gua schema show`` printed them then.

From version 6 on without the views that every upgrade makes anew: folders 40 to 70.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "schema"


def released(version: int, form: str) -> list[tuple[str, str]]:
    """Return name and text of every statement of a released schema; ``form`` is server or embedded."""
    parts = (FOLDER / str(version) / f"{form}.sql").read_text("utf-8").split("\n\n-- ")
    named = (part.removeprefix("-- ").strip().removesuffix(";").partition("\n") for part in parts)
    return [(name, sql) for name, _, sql in named]
