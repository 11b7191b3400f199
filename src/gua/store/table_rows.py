"""Rows of a table as they are handed to an embedded engine: in a file, with what it is to make of each column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol


class TickColumn(NamedTuple):
    """A column of what is inserted: the type it is read as from the file, and ``sql``, what becomes of that."""

    name: str
    read: str
    sql: str


class TableRows(Protocol):
    """Rows of one table, in a format of the engine's."""

    format: ClassVar[str]

    @property
    def table(self) -> str:
        """The table's name in ``gua``."""
        ...

    @property
    def columns(self) -> Sequence[TickColumn]:
        """What is read from the file, in order."""
        ...

    def write(self, path: Path) -> None:
        """Write the rows to a file."""
        ...
