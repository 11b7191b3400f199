"""Parsers of recorded files (CSV of nvidia-smi, JSON Lines of custom recorders, output of dmon); names of columns."""

import csv
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from gua.core.errors import DataError
from gua.core.untrusted import require
from gua.imports.recorded_file import RecordedFile

_BRACKET = re.compile(r"[\[(]")
_SHOWN = {"used": "memory.used", "uuid": "uuid", "index": "index"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Alias:
    """Meaning of a column name. If several columns have one field, the lowest rank is used, then the first."""

    field: str
    unit: str = ""
    rank: int = 0


def _aliases(fields: Mapping[str, str]) -> dict[str, Alias]:
    return {
        name: Alias(field=field, rank=rank)
        for field, names in fields.items()
        for rank, name in enumerate(names.split())
    }


def _memory(fields: Iterable[str], names: str) -> dict[str, Alias]:
    return {
        f"{name.format(field)}{suffix}": Alias(field=field, unit=unit)
        for field in fields
        for name in names.split()
        for suffix, unit in _NAMES["memory"]["units"].items()
    }


_NAMES: Final = tomllib.loads(Path(__file__).with_name("columns.toml").read_text("utf-8"))
_STAMP: Final = _aliases({"timestamp": _NAMES["timestamp"]})
CARD_COLUMNS: Final[Mapping[str, Alias]] = {
    **_STAMP,
    **_aliases(_NAMES["card"]),
    **_memory(("used", "total", "free", "reserved"), _NAMES["memory"]["card"]),
}
"""Columns of cards by normalised name, as columns.toml declares them."""
# The driver's utilization is the share of time in which the graphics engine was busy: the last choice.
_GRAPHICS_ENGINE: Final = ("gract", "dcgm_fi_prof_gr_engine_active", "gr_engine_active", "1001")
DMON_COLUMNS: Final[Mapping[str, Alias]] = {
    **CARD_COLUMNS,
    **_aliases(_NAMES["dmon"]),
    **dict.fromkeys(_GRAPHICS_ENGINE, Alias(field="utilization", unit="ratio", rank=9)),
}
"""The same with those of dmon."""
APP_COLUMNS: Final[Mapping[str, Alias]] = {
    **_STAMP,
    **_aliases(_NAMES["process"]),
    **_memory(("used",), _NAMES["memory"]["process"]),
}
"""Columns of processes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Places of the fields in a file's rows (positions in CSV, keys in JSON), and the units in column names."""

    places: Mapping[str, int | str]
    units: Mapping[str, str]

    def row(self, cells: Any) -> dict[str, Any]:  # noqa: ANN401 - a list of CSV cells or a JSON object
        """Return a row's cells by field."""
        return {field: cells[place] for field, place in self.places.items()}


def normalise(name: str) -> tuple[str, str]:
    """Return a column's normalised name and its unit: ``memory.used [MiB]`` becomes ``memory_used`` and ``mib``."""
    text = name.strip().strip("\"'").lstrip("\ufeff").strip().lower()
    unit = ""
    # No regular expression for all of it: with 100,000 brackets that takes quadratic time.
    if text.endswith(("]", ")")) and (
        bracket := _BRACKET.search(text, max(text.rfind(end, 0, -1) for end in "])") + 1)
    ):
        text, unit = text[: bracket.start()].rstrip(), text[bracket.end() : -1].strip()
    return re.sub(r"[\s.\-/]+", "_", text), unit


def layout(names: Iterable[str], columns: Mapping[str, Alias], places: Iterable[int | str] | None = None) -> Layout:
    """Return the places and units of the fields of ``columns`` in a file with these names; unknown names are ignored.

    Without ``places``, the cells are in the order of the names.
    """
    best: dict[str, tuple[int, int | str, str]] = {}
    for name, place in zip(names, count() if places is None else places, strict=False):
        text, unit = normalise(name)
        alias = columns.get(text)
        if alias is None:
            continue
        if alias.field not in best or alias.rank < best[alias.field][0]:
            best[alias.field] = (alias.rank, place, unit or alias.unit)
    return Layout(
        places={field: place for field, (_, place, _) in best.items()},
        units={field: unit for field, (_, _, unit) in best.items()},
    )


CARD_QUERY: Final = ("--query-gpu=timestamp,uuid,memory.used,…", ("timestamp",), ("uuid", "index"), ("used",))
"""The query of nvidia-smi that records cards, and the columns that the file must have: one of each group."""
APP_QUERY: Final = ("--query-compute-apps=timestamp,gpu_uuid,pid,…", ("timestamp",), ("uuid",), ("pid",))
"""The same for processes."""


def require_dmon(file_layout: Layout, where: str) -> None:
    """Raise DataError, with the remedy, unless a dmon recording has card, time, and memory or utilization."""
    if not {"uuid", "index"} & file_layout.places.keys():
        msg = f"{where}: there is no column gpu and no entity: give the output of nvidia-smi dmon or dcgmi dmon"
    elif "timestamp" not in file_layout.places:
        msg = f"{where}: there are no dates and times: record with nvidia-smi dmon -o DT"
    elif not {"used", "utilization"} & file_layout.places.keys():
        msg = (
            f"{where}: there is neither utilization nor memory: "
            "record with nvidia-smi dmon -s um -o DT, or dcgmi dmon -e 203,252"
        )
    else:
        return
    raise DataError(msg)


def require_columns(file_layout: Layout, where: str, query: str, *groups: tuple[str, ...]) -> None:
    """Raise DataError, with missing columns and remedy, unless the file has one column of each group."""
    lacking = [
        " or ".join(_SHOWN.get(field, field) for field in group)
        for group in groups
        if not any(field in file_layout.places for field in group)
    ]
    if lacking:
        raise DataError(f"{where}: there is no column {' and none '.join(lacking)}: record with {query}")


R = TypeVar("R")
Make = Callable[[Layout, str], Callable[[Any], R]]
"""Returns the row parser for a layout; the text is the layout's place in the file, for errors."""
_LAYOUTS = 1_000

# Messages of nvidia-smi between rows when the driver or a card fails.
_MESSAGES = (
    "Unable to determine the device handle",
    "Failed to initialize NVML",
    "NVIDIA-SMI has failed",
    "No devices were found",
    "GPU is lost",
    "Reboot the system",
)


@dataclass(slots=True)
class _Table(Generic[R]):
    """The current header, its layout, and the parser of the rows below it."""

    header: str
    width: int
    file_layout: Layout
    parse: Callable[[list[str]], R]


def read_csv(
    source: RecordedFile,
    columns: Mapping[str, Alias],
    make: Make[R],
    names: Sequence[str] = (),
    no_header: str = "there is no header: record without noheader, or name the columns with --columns timestamp,uuid,…",
) -> Iterator[R]:
    """Yield the file's rows in order.

    ``make`` returns the parser of a row's cells. ``names`` are the columns of a file without a header; a header in the
    file takes precedence, and may repeat or change. ``no_header`` is the remedy in the error for a missing header.
    Raises DataError with file and line for an invalid line. Blank lines are ignored; messages of nvidia-smi and an
    incomplete last line are skipped and listed in ``source.left_out``.
    """
    table: _Table[R] | None = None
    if names:
        file_layout = layout(names, columns)
        table = _Table(
            "", len(names), file_layout, make(file_layout, f"{source.path} with --columns {','.join(names)}")
        )
    for text in source.lines():
        problem = no_header
        if table is not None:
            if text == table.header:
                continue
            if not text.endswith("\n") and text.strip():  # an incomplete line may end in a wrong number: 12 of 121 W
                source.leave_out("the last line is cut off")
                continue
            try:
                row = table.parse(_cells(text, table))
            except ValueError as error:
                problem = f"{error}: correct or remove the line"
            else:
                yield row
                continue
        heading = _heading(text, columns, first=table is None)
        if heading is not None:
            file_layout = layout(heading, columns)
            table = _Table(text, len(heading), file_layout, make(file_layout, source.where))
        else:
            leave_out(text, source, problem)


def _cells(text: str, table: _Table[R]) -> list[str]:
    """Return the line's cells. Raises ValueError for wrong quoting or a wrong number of cells."""
    cells = text.split(",") if '"' not in text else _quoted(text)
    extra = len(cells) - table.width
    if extra == 0:
        return cells
    # nvidia-smi does not quote: a program name that contains commas is rejoined.
    place = table.file_layout.places.get("program")
    if extra < 0 or not isinstance(place, int):
        raise ValueError(f"the row has {len(cells)} fields, {table.width} are expected")
    return [*cells[:place], ",".join(cells[place : place + extra + 1]), *cells[place + extra + 1 :]]


def _heading(text: str, columns: Mapping[str, Alias], *, first: bool) -> list[str] | None:
    """Return the cells of a header line with names of columns, ``None`` for any other line."""
    try:
        names = _quoted(text)
    except ValueError:
        return None
    known = len(layout(names, columns).places)
    # A program may be named "time", so a later header needs two names of columns.
    return names if known >= (1 if first else 2) else None


def leave_out(text: str, source: RecordedFile, problem: str) -> None:
    """Skip a blank line; list a message of nvidia-smi in the source. Raises DataError for any other line."""
    if not text.strip():
        return
    if text.strip().startswith(_MESSAGES):
        source.leave_out("a message of nvidia-smi, no row")
    else:
        raise DataError(f"{source.where}: {problem}")


def _quoted(text: str) -> list[str]:
    try:
        return next(csv.reader((text,), skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        raise ValueError(f"the quoting is wrong ({error})") from None


def read_json_lines(source: RecordedFile, columns: Mapping[str, Alias], make: Make[R]) -> Iterator[R]:
    """Yield the file's rows in order; rows may differ in their fields.

    ``make`` returns the parser of a row's object. NaN, which pandas writes, is unknown. Raises DataError with file and
    line for an invalid line. Blank lines are ignored; an incomplete last line is listed in ``source.left_out``.
    """
    decode: Callable[[str], Any] = json.JSONDecoder(parse_constant=lambda _: None).decode
    parsers: dict[tuple[str, ...], Callable[[Any], R]] = {}
    for text in source.lines():
        if text.isspace():
            continue
        try:
            try:
                fields = decode(text)
            except (ValueError, RecursionError):
                raise ValueError("the line is not a JSON object") from None
            require(isinstance(fields, dict), "the line is JSON, but not an object with named fields")
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
            raise DataError(f"{source.where}: {error}: correct or remove the line") from None
        yield row


_ENTITY: Final = "entity"
# A row of dcgmi: optional time, kind of entity, its number, and the values.
_ROW: Final = re.compile(
    r"(.{0,64}?)\b(GPU-I|GPU-CI|GPU|vGPU|Switch|Link|CPU|CPU Core|ConnectX)[ \t]+([0-9]+)(?!\S)(.*)"
)
# The header of dmon must be within these lines; else the file is CSV with named columns.
_FIRST_LINES: Final = 100
_UNITS: Final = frozenset({"yyyymmdd", "hh:mm:ss", "idx"})
_NO_HEADING: Final = "the line stands before any header: record without noheader"
# An empty line of dcgmi after ts(1) has only the time.
_TIME_ALONE: Final = re.compile(r"[0-9TZ:+./\-\s]*", re.ASCII)
_DATE: Final = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})", re.ASCII)


@dataclass(slots=True)
class _Heading(Generic[R]):
    """The current header: its names, whether commas separate the cells, and the parser of rows."""

    names: tuple[str, ...]
    has_commas: bool
    parse: Callable[[list[str]], R]


def read_dmon(source: RecordedFile, make: Make[R]) -> Iterator[R]:
    """Yield the rows of a file by ``nvidia-smi dmon`` or ``dcgmi dmon`` in order; without such a header read it as CSV.

    ``make`` returns the parser of a row's cells. Raises DataError with file and line for an invalid line. Blank lines
    and units are ignored. Messages, an incomplete last line, and entities other than GPUs are listed in
    ``source.left_out``.
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
    """Return the names of the columns in lower case if the line is a header, else ``None``."""
    before, sign, after = text.partition("#")
    if not sign or _ROW.match(before):
        return None
    names = tuple(name.strip().lower() for name in (after.split(",") if "," in after else after.split()))
    return None if not names or _UNITS & set(names) else names


def _is_remark(text: str, heading: _Heading[R] | None) -> bool:
    """Return whether the line has only units, a time, or dcgmi's message that it was stopped."""
    if heading is not None and heading.names[0] == _ENTITY:
        return "ID" in text.split()[:3] or "dmon was stopped" in text or _TIME_ALONE.fullmatch(text) is not None
    return text.lstrip().startswith("#")


def _dmon_layout(names: tuple[str, ...], source: RecordedFile) -> Layout:
    """Return the layout of the cells of :func:`_dmon_cells`. Raises DataError for times without dates."""
    if names[0] != _ENTITY and not {"date", "time"} <= set(names):
        raise DataError(f"{source.where}: there are no dates and times: record with nvidia-smi dmon -o DT")
    # Date and time are joined into one cell at the end.
    shown = [name if name not in {"date", "time"} else f"{name} of a row" for name in names]
    return layout((*shown, "timestamp"), DMON_COLUMNS)


def _dmon_cells(line: str, heading: _Heading[R], source: RecordedFile) -> list[str] | None:
    """Return the line's cells with its time as the last one, ``None`` for an entity other than a GPU.

    Raises ValueError for an invalid row, DataError for a row of dcgmi without a time.
    """
    names = heading.names
    if names[0] == _ENTITY:
        row = _ROW.fullmatch(line)
        if row is None:
            raise ValueError("the row does not begin with a time and GPU and its number")
        stamp, kind, number, rest = row.groups()
        if kind != "GPU":
            source.leave_out(f"{kind} {number} is no whole GPU")
            return None
        stamp = stamp.strip(" \t:;,|[]")
        if not stamp:
            raise DataError(
                f"{source.where}: there are no times, and dcgmi dmon prints none: "
                "record with dcgmi dmon -e 203,252 | ts '%FT%T%z' (ts is in moreutils)"
            )
        rest = rest.strip(" \t,")
        cells = [number, *(rest.split(",") if heading.has_commas else rest.split())]
    else:
        cells = [cell.strip() for cell in (line.split(",") if heading.has_commas else line.split())]
        stamp = None
    require(len(cells) == len(names), f"the row has {len(cells)} fields, {len(names)} are expected")
    return [*cells, _moment(cells, names) if stamp is None else stamp]


def _moment(cells: list[str], names: tuple[str, ...]) -> str:
    """Return date and time of a row of nvidia-smi as one text; 20260131 becomes 2026-01-31."""
    date = cells[names.index("date")]
    match = _DATE.fullmatch(date)
    return f"{'-'.join(match.groups()) if match else date} {cells[names.index('time')]}"
