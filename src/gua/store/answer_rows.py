"""Query result rows, stored as the column blocks that the engine returned.

A column of known numbers takes eight bytes a value; equal texts in a column share one object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clickhouse_connect.driver.query import QueryResult


class AnswerRows:
    """Rows as mappings by column name. Each is built on iteration, as 10,000 cards would fill a report's memory."""

    def __init__(self, names: Sequence[str], blocks: Sequence[Sequence[Sequence[Any]]]) -> None:
        self._names = names
        self._blocks = blocks

    def __len__(self) -> int:
        return sum(len(block[0]) for block in self._blocks)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        for block in self._blocks:
            for row in zip(*block, strict=True):
                yield dict(zip(self._names, row, strict=True))


def read_rows(result: QueryResult) -> AnswerRows:
    """Return the rows of a ``SELECT`` result, read block by block."""
    # One dictionary per column: the key (None,) fits numbers and texts, and (1,) equals (1.0,).
    known: list[dict[object, object]] = [{} for _ in result.column_names]
    with result.column_block_stream as blocks:
        kept = [[*map(_each_text_once, block, known)] for block in blocks]
    return AnswerRows(result.column_names, kept)


def _each_text_once(column: Sequence[Any], known: dict[object, object]) -> Sequence[Any]:
    if not len(column) or not _is_text(column[0]):
        return column
    return [known.setdefault(value, value) for value in column]


def _is_text(value: object) -> bool:
    """Return whether ``value`` is a text, or a tuple of texts and ``None``."""
    if isinstance(value, tuple):
        return all(part is None or isinstance(part, str) for part in value)
    return isinstance(value, str)
