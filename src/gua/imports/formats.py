"""Recorded files to rows: CSV as nvidia-smi writes it, JSON Lines of people's own recorders, and what dmon prints."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from gua.core.errors import DataError
from gua.core.untrusted import require
from gua.imports.columns import DMON_COLUMNS, Alias, Layout, layout
from gua.imports.recorded_file import RecordedFile

R = TypeVar("R")
Make = Callable[[Layout, str], Callable[[Any], R]]
"""Makes the parser of a row of a layout; the text is where that stands, for errors."""
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
    make: Make[R],
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


def read_json_lines(source: RecordedFile, columns: Mapping[str, Alias], make: Make[R]) -> Iterator[R]:
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


_ENTITY: Final = "entity"
# What dcgmi calls a thing that it watches, and the number of it. A time may stand before it.
_ROW: Final = re.compile(
    r"(.{0,64}?)\b(GPU-I|GPU-CI|GPU|vGPU|Switch|Link|CPU|CPU Core|ConnectX)[ \t]+([0-9]+)(?!\S)(.*)"
)
# A header of CSV with named columns is the first line that is not blank.
_FIRST_LINES: Final = 100
_UNITS: Final = frozenset({"yyyymmdd", "hh:mm:ss", "idx"})
_AROUND_TIMES: Final = " \t:;,|[]"
_STOPPED: Final = "dmon was stopped"
_NO_HEADING: Final = "the line stands before any header: record without noheader"
# A line of dcgmi that was empty has the time before it alone.
_TIME_ALONE: Final = re.compile(r"[0-9TZ:+./\-\s]*", re.ASCII)
_DATE: Final = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})", re.ASCII)


@dataclass(slots=True)
class _Heading(Generic[R]):
    """The header in force: its names, whether commas part the cells, and the parser that follows from it."""

    names: tuple[str, ...]
    has_commas: bool
    parse: Callable[[list[str]], R]


def read_dmon(source: RecordedFile, make: Make[R]) -> Iterator[R]:
    """Return the file's rows in order.

    ``make`` turns a layout (and where it stands, for its errors) into the parser of one row's cells. A file that does
    not begin with such a header is CSV with named columns. Raises DataError with file and line for every line that is
    no row, except blank ones, units, messages, a last line without an end, and entities that are no GPUs: those three
    are named in the source.
    """
    if not any("#" in text for text in islice(source.lines(), _FIRST_LINES)):
        yield from read_csv(source, DMON_COLUMNS, make, no_header=_NO_HEADING)
        return
    heading: _Heading[R] | None = None
    for text in source.lines():
        names = _dmon_header(text)
        if names is not None:
            if heading is None or heading.names != names:
                heading = _Heading(names, "," in text, make(_dmon_layout(names, source), source.where))
            continue
        if not text.strip() or _is_remark(text, heading):
            continue
        if not text.endswith("\n"):
            source.leave_out("the last line is cut off")
            continue
        problem = _NO_HEADING
        if heading is not None:
            try:
                cells = _dmon_cells(text.strip(), heading, source)
                if cells is not None:
                    yield heading.parse(cells)
                continue
            except ValueError as error:
                problem = f"{error}: correct or remove the line"
        leave_out(text, source, problem)


def _dmon_header(text: str) -> tuple[str, ...] | None:
    """Return the names of the columns if the line is a header."""
    before, found, after = text.partition("#")
    if not found or _ROW.match(before):
        return None
    names = tuple(name.strip().lower() for name in (after.split(",") if "," in after else after.split()))
    return None if not names or _UNITS & set(names) else names


def _is_remark(text: str, heading: _Heading[R] | None) -> bool:
    """Tell whether the line has units, says that dcgmi was stopped, or nothing."""
    if heading is not None and heading.names[0] == _ENTITY:
        return "ID" in text.split()[:3] or _STOPPED in text or _TIME_ALONE.fullmatch(text) is not None
    return text.lstrip().startswith("#")


def _dmon_layout(names: tuple[str, ...], source: RecordedFile) -> Layout:
    """Return where the cells of :func:`_dmon_cells` hold what. Raises DataError for times without dates."""
    if names[0] != _ENTITY and not {"date", "time"} <= set(names):
        msg = f"{source.where}: there are no dates and times: record with nvidia-smi dmon -o DT"
        raise DataError(msg)
    # The time is put together, and stands after the others.
    shown = [name if name not in {"date", "time"} else f"{name} of a row" for name in names]
    return layout((*shown, "timestamp"), DMON_COLUMNS)


def _dmon_cells(line: str, heading: _Heading[R], source: RecordedFile) -> list[str] | None:
    """Return the line's cells and its time, ``None`` for what is no GPU.

    Raises ValueError, and DataError where no time stands before the line.
    """
    names = heading.names
    if names[0] == _ENTITY:
        row = _ROW.fullmatch(line)
        if row is None:
            msg = "the row does not begin with a time and GPU and its number"
            raise ValueError(msg)
        stamp, kind, number, rest = row.groups()
        if kind != "GPU":
            source.leave_out(f"{kind} {number} is no whole GPU")
            return None
        stamp = stamp.strip(_AROUND_TIMES)
        if not stamp:
            msg = (
                f"{source.where}: there are no times, and dcgmi dmon prints none: "
                "record with dcgmi dmon -e 203,252 | ts '%FT%T%z' (ts is in moreutils)"
            )
            raise DataError(msg)
        rest = rest.strip(" \t,")
        cells = [number, *(rest.split(",") if heading.has_commas else rest.split())]
    else:
        cells = [cell.strip() for cell in (line.split(",") if heading.has_commas else line.split())]
        stamp = None
    require(len(cells) == len(names), f"the row has {len(cells)} fields, {len(names)} are expected")
    return [*cells, _moment(cells, names) if stamp is None else stamp]


def _moment(cells: list[str], names: tuple[str, ...]) -> str:
    """Return date and time of a row of nvidia-smi, in which a date is 20260131."""
    date = cells[names.index("date")]
    found = _DATE.fullmatch(date)
    return f"{'-'.join(found.groups()) if found else date} {cells[names.index('time')]}"
