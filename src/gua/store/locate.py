"""Where the shipped SQL lies: in the installed package, else in the checkout."""

from __future__ import annotations

from pathlib import Path

from gua.core.errors import UnavailableError

_PACKAGED = Path(__file__).resolve().parent.parent / "clickhouse"
_CHECKOUT = Path(__file__).resolve().parents[3] / "clickhouse"


def schema_directory(candidates: tuple[Path, ...] = (_PACKAGED, _CHECKOUT)) -> Path:
    """Return the first of the candidates that holds the SQL. Raises UnavailableError if none does."""
    for directory in candidates:
        if (directory / "00_landing").is_dir():
            return directory
    msg = f"the SQL that ships with gua is missing from {candidates[0]}: install gua-otel again"
    raise UnavailableError(msg)
