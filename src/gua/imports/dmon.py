"""What ``nvidia-smi dmon -o DT`` and ``dcgmi dmon`` print, as text or CSV, to rows.

Headers begin with ``#`` and come again; a second line below each has units. ``nvidia-smi dmon`` has the date and the
time in columns of their own. ``dcgmi dmon`` tells no time: who records it puts one before each line, as ``ts`` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Generic, TypeVar

from gua.core.errors import DataError
from gua.core.untrusted import require
from gua.imports.columns import DMON_COLUMNS, Layout, layout
from gua.imports.formats import leave_out, read_csv
from gua.imports.recorded_file import RecordedFile

R = TypeVar("R")
Make = Callable[[Layout, str], Callable[[list[str]], R]]

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
_NO_HEADER: Final = "the line stands before any header: record without noheader"
# A line of dcgmi that was empty has the time before it alone.
_TIME_ALONE: Final = re.compile(r"[0-9TZ:+./\-\s]*", re.ASCII)
_DATE: Final = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})", re.ASCII)


@dataclass(slots=True)
class _Heading(Generic[R]):
    """The header in force: its names, whether commas part the cells, and the parser that follows from it."""

    names: tuple[str, ...]
    has_commas: bool
    parse: Callable[[list[str]], R]


def read(source: RecordedFile, make: Make[R]) -> Iterator[R]:
    """Return the file's rows in order.

    ``make`` turns a layout (and where it stands, for its errors) into the parser of one row's cells. A file that does
    not begin with such a header is CSV with named columns. Raises DataError with file and line for every line that is
    no row, except blank ones, units, messages, a last line without an end, and entities that are no GPUs: those three
    are named in the source.
    """
    if not any("#" in text for text in islice(source.lines(), _FIRST_LINES)):
        yield from read_csv(source, DMON_COLUMNS, make, no_header=_NO_HEADER)
        return
    heading: _Heading[R] | None = None
    for text in source.lines():
        names = _header(text)
        if names is not None:
            if heading is None or heading.names != names:
                heading = _Heading(names, "," in text, make(_layout(names, source), source.where))
            continue
        if not text.strip() or _is_remark(text, heading):
            continue
        if not text.endswith("\n"):
            source.leave_out("the last line is cut off")
            continue
        problem = _NO_HEADER
        if heading is not None:
            try:
                cells = _cells(text.strip(), heading, source)
                if cells is not None:
                    yield heading.parse(cells)
                continue
            except ValueError as error:
                problem = f"{error}: correct or remove the line"
        leave_out(text, source, problem)


def _header(text: str) -> tuple[str, ...] | None:
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


def _layout(names: tuple[str, ...], source: RecordedFile) -> Layout:
    """Return where the cells of :func:`_cells` hold what. Raises DataError for times without dates."""
    if names[0] != _ENTITY and not {"date", "time"} <= set(names):
        msg = f"{source.where}: there are no dates and times: record with nvidia-smi dmon -o DT"
        raise DataError(msg)
    # The time is put together, and stands after the others.
    shown = [name if name not in {"date", "time"} else f"{name} of a row" for name in names]
    return layout((*shown, "timestamp"), DMON_COLUMNS)


def _cells(line: str, heading: _Heading[R], source: RecordedFile) -> list[str] | None:
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
