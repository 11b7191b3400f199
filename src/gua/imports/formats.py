"""CSV as ``nvidia-smi --query-…=… --format=csv`` writes it, and JSON Lines of people's own recorders, to rows."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gua.core.errors import DataError
from gua.core.untrusted import require
from gua.imports.columns import Alias, Layout, layout
from gua.imports.recorded_file import RecordedFile

R = TypeVar("R")
_LAYOUTS = 1_000

# What nvidia-smi prints between rows when the driver or a card goes away.
_MESSAGES = (
    "Unable to determine the device handle",
    "Failed to initialize NVML",
    "NVIDIA-SMI has failed",
    "No devices were found",
    "GPU is lost",
    "Reboot the system",
)
_NO_HEADER = "there is no header: record without noheader, or name the columns with --columns timestamp,uuid,…"


@dataclass(slots=True)
class _Table(Generic[R]):
    """The header in force, what it says of the rows below it, and the parser that follows from it."""

    header: str
    width: int
    file_layout: Layout
    parse: Callable[[list[str]], R]


def read_csv(
    source: RecordedFile,
    columns: Mapping[str, Alias],
    make: Callable[[Layout, str], Callable[[list[str]], R]],
    given: Sequence[str] = (),
    no_header: str = _NO_HEADER,
) -> Iterator[R]:
    """Return the file's rows in order.

    ``make`` turns a layout (and where it stands, for its errors) into the parser of one row's cells.
    ``given`` names the columns of a file without a header; a header in the file wins; ``no_header`` says what to do
    where there is none. Headers may come again and change. Raises DataError with file and line for every line that is
    no row, except blank lines, nvidia-smi's own messages and a last line without an end: those are named in the source.
    """
    table: _Table[R] | None = None
    if given:
        file_layout = layout(given, columns)
        table = _Table(
            "", len(given), file_layout, make(file_layout, f"{source.path} with --columns {','.join(given)}")
        )
    for text in source.lines():
        problem = no_header
        if table is not None:
            if text == table.header:
                continue
            if not text.endswith("\n") and text.strip():  # nvidia-smi ends every line: 12 W were going to be 121 W
                source.leave_out("the last line is cut off")
                continue
            try:
                row = table.parse(_cells(text, table))
            except ValueError as error:
                problem = f"{error}: correct or remove the line"
            else:
                yield row
                continue
        names = _heading(text, columns, first=table is None)
        if names is not None:
            file_layout = layout(names, columns)
            table = _Table(text, len(names), file_layout, make(file_layout, source.where))
        else:
            leave_out(text, source, problem)


def _cells(text: str, table: _Table[R]) -> list[str]:
    """Return the line's cells. Raises ValueError."""
    cells = text.split(",") if '"' not in text else _quoted(text)
    return cells if len(cells) == table.width else _rejoined(cells, table)


def _heading(text: str, columns: Mapping[str, Alias], *, first: bool) -> list[str] | None:
    """Return the cells of this line if it is a header: it names columns instead of holding values."""
    try:
        names = _quoted(text)
    except ValueError:
        return None
    known = len(layout(names, columns).places)
    # A program may be called "time"; two cells that are both names of columns are a header.
    return names if known >= (1 if first else 2) else None


def leave_out(text: str, source: RecordedFile, problem: str) -> None:
    """Remember a line that is not used. Raises DataError if it is none of those that may be left out."""
    if not text.strip():
        return
    if text.strip().startswith(_MESSAGES):
        source.leave_out("a message of nvidia-smi, no row")
    else:
        msg = f"{source.where}: {problem}"
        raise DataError(msg)


def _quoted(text: str) -> list[str]:
    try:
        return next(csv.reader((text,), skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        msg = f"the quoting is wrong ({error})"
        raise ValueError(msg) from None


def _rejoined(cells: list[str], table: _Table[R]) -> list[str]:
    """Put a program's name with commas together again: nvidia-smi does not quote. Raises ValueError."""
    extra = len(cells) - table.width
    place = table.file_layout.places.get("program")
    if extra < 0 or not isinstance(place, int):
        msg = f"the row has {len(cells)} fields, {table.width} are expected"
        raise ValueError(msg)
    return [*cells[:place], ",".join(cells[place : place + extra + 1]), *cells[place + extra + 1 :]]


def read_json_lines(
    source: RecordedFile, columns: Mapping[str, Alias], make: Callable[[Layout, str], Callable[[Any], R]]
) -> Iterator[R]:
    """Return the file's rows in order; rows may differ in their fields.

    ``make`` turns a layout (and where it stands, for its errors) into the parser of one row's object.
    NaN, which pandas writes, is unknown. Raises DataError with file and line for every line that is no
    row, except blank lines and a last line that was cut off: that one is named in the source.
    """
    decode = json.JSONDecoder(parse_constant=lambda _: None).decode
    parsers: dict[tuple[str, ...], Callable[[Any], R]] = {}
    for text in source.lines():
        if text.isspace():
            continue
        try:
            fields = _fields(decode, text)
            names = tuple(fields)
            parse = parsers.get(names)
            if parse is None:
                if len(parsers) >= _LAYOUTS:
                    parsers.clear()
                parse = parsers[names] = make(layout(names, columns, names), source.where)
            row = parse(fields)
        except ValueError as error:
            if not text.endswith("\n"):
                source.leave_out("the last line is cut off")
                continue
            msg = f"{source.where}: {error}: correct or remove the line"
            raise DataError(msg) from None
        yield row


def _fields(decode: Callable[[str], Any], text: str) -> Any:  # noqa: ANN401 - an object by then
    try:
        fields = decode(text)
    except (ValueError, RecursionError):
        msg = "the line is not a JSON object"
        raise ValueError(msg) from None
    require(isinstance(fields, dict), "the line is JSON, but not an object with named fields")
    return fields
