"""Rows in ClickHouse's format Native: whole columns, without a Python object for each row.

https://clickhouse.com/docs/interfaces/formats/Native
"""

from array import array
from collections.abc import Sequence
from typing import Any

from gua.store.tick_rows import TickColumn


def block(columns: Sequence[TickColumn], values: Sequence[object], rows: int) -> bytes:
    """Return one block of integers and texts: a list has a value for each row, any other value is that of all rows."""
    parts = [size(len(columns)), size(rows)]
    for column, value in zip(columns, values, strict=True):
        every: list[Any] = value if isinstance(value, list) else [value]
        data = (_texts if "String" in column.read else _integers)(every)
        if column.read.startswith("Nullable("):
            data = (bytes([one is None for one in every]) if None in every else bytes(len(every))), *data
        parts += _text(column.name), _text(column.read)
        parts += data if every is value else [one * rows for one in data]
    return b"".join(parts)


def _integers(values: Sequence[int | None]) -> tuple[bytes, ...]:
    return (array("q", [one or 0 for one in values] if None in values else values).tobytes(),)  # type: ignore[type-var]


def _texts(values: Sequence[str | None]) -> tuple[bytes, ...]:
    known = {one: _text(one or "") for one in set(values)}
    return (b"".join([known[one] for one in values]),)


def _text(text: str) -> bytes:
    raw = text.encode()
    return size(len(raw)) + raw


def size(number: int) -> bytes:
    """Return a number as LEB128."""
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)
