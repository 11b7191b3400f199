"""Rows of a recording, each one card or one process on a card at one time, and their parsers."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import lru_cache
from typing import Any, Final, NamedTuple

from gua.core.ports import Activity
from gua.core.tick import ProcessReading
from gua.core.untrusted import require
from gua.core.words import Mig, ProcessType
from gua.imports.formats import (
    APP_COLUMNS,
    APP_QUERY,
    CARD_COLUMNS,
    CARD_QUERY,
    DMON_COLUMNS,
    Layout,
    read_csv,
    read_dmon,
    read_json_lines,
    require_columns,
    require_dmon,
)
from gua.imports.recorded_file import RecordedFile
from gua.imports.values import (
    Cell,
    Timestamps,
    celsius,
    clock_reasons,
    is_error,
    is_lost,
    label,
    memory_parser,
    percent_parser,
    ratio_parser,
    remembered,
    watts,
    whole,
)

DEFAULT_HOST: Final = "imported"
_MAX_INDEX = 65_535
_MAX_PID = 2**32 - 1
_IDENTITY = ("uuid", "host", "index", "name", "driver", "pci", "mig")
_MOST_KNOWN: Final = 20_000
_MIG = {"enabled": Mig.PARENT, "disabled": Mig.NONE}
# Some programs write their options into their own name; options are private and not stored.
_LONGEST_PATH = 4096
_OPTIONS = re.compile(r"\s+[-/]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """Settings of an import. ``timezone`` is for times without an offset, ``columns`` for files without a header.

    If ``host`` is ``None``, it is the row's own, else ``imported``. ``reserve_bytes`` is subtracted from used memory.
    ``is_dmon`` is for output of ``nvidia-smi dmon`` and ``dcgmi dmon``. ``cards`` are UUIDs by index, for rows without.
    """

    timezone: tzinfo
    host: str | None = None
    columns: tuple[str, ...] = ()
    reserve_bytes: int | None = None
    is_dmon: bool = False
    cards: tuple[str, ...] = ()


class RecordedCard(NamedTuple):
    """One card at one time (Unix ms); ``values`` are fields of its reading. ``source`` is at the line when read."""

    ts_ms: int
    host: str
    uuid: str
    values: dict[str, Any]
    source: RecordedFile


class AppRow(NamedTuple):
    """One process on one card at one time (Unix ms)."""

    ts_ms: int
    uuid: str
    process: ProcessReading
    source: RecordedFile


@dataclass(slots=True)
class Assumed:
    """Assumptions made: that used memory excludes the driver's reserve, and the time zone of times without an offset.

    ``memory_unknown`` is whether a file has no column of used memory.
    """

    reserve_excluded: bool = False
    times_without_offset: bool = False
    memory_unknown: bool = False


class _Cards:
    """Cached parser of the cells that identify a card, for one file; it remembers uuids by host and index."""

    def __init__(self, host: str | None, cards: tuple[str, ...]) -> None:
        self._host = host
        self._cards = cards
        self._uuids: dict[tuple[str, int], str] = {}
        self.parse = lru_cache(maxsize=_MOST_KNOWN)(self._read)

    def _read(  # noqa: PLR0913, PLR0917 - one parameter for each name in _IDENTITY
        self, uuid: Cell, host: Cell, index: Cell, name: Cell, driver: Cell, pci: Cell, mig: Cell
    ) -> tuple[str, dict[str, Any]]:
        """Return the host and the identifying fields of the card's reading. Raises ValueError for invalid cells."""
        recorded_host = label(host, "host") or self._host or DEFAULT_HOST
        number, known = whole(index, "index", _MAX_INDEX), label(uuid, "uuid")
        require((known, number) != (None, None), "the row has neither uuid nor index of a card")
        if known is None and number is not None and self._cards:
            count = len(self._cards)
            require(number < count, f"GPU {number} is not among the {count} of --cards (name it, too)")
            known = self._cards[number]
        if known is None:
            # A lost card has no uuid any more: its index identifies it, as in files without uuids.
            known = self._uuids.get((recorded_host, number or 0), f"imported-{recorded_host}-{number}")
        elif number is not None:
            self._uuids[recorded_host, number] = known
        return self._host or recorded_host, {
            "uuid": known,
            "index": number,
            "name": label(name, "name"),
            "driver_version": label(driver, "driver_version"),
            "pci": label(pci, "pci.bus_id"),
            "mig": _MIG.get(str(mig).strip().lower()),
        }


class CardRowReader:
    """Reads the card rows of CSV, JSON Lines and dmon files; ``assumed`` collects the assumptions made."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self.assumed = Assumed()

    def read(self, source: RecordedFile) -> Iterator[RecordedCard]:
        """Yield the rows of one file in its order. Raises DataError for an invalid line."""
        stamps = Timestamps(self._reading.timezone)
        cards = _Cards(self._reading.host, self._reading.cards)
        is_dmon = self._reading.is_dmon

        def make(file_layout: Layout, where: str) -> Callable[[Any], RecordedCard]:
            if is_dmon:
                require_dmon(file_layout, where)
            else:
                require_columns(file_layout, where, *CARD_QUERY)
            self.assumed.memory_unknown |= "used" not in file_layout.places
            return self._parser(file_layout, source, stamps, cards)

        if source.json_lines:
            yield from read_json_lines(source, DMON_COLUMNS if is_dmon else CARD_COLUMNS, make)
        elif is_dmon:
            yield from read_dmon(source, make)
        else:
            yield from read_csv(source, CARD_COLUMNS, make, self._reading.columns)
        self.assumed.times_without_offset |= stamps.without_offset

    def _parser(
        self, file_layout: Layout, source: RecordedFile, stamps: Timestamps, cards: _Cards
    ) -> Callable[[Any], RecordedCard]:
        places = file_layout.places
        parsers = [
            (field, places[column], remembered(parse))
            for field, (column, parse) in _parsers(file_layout.units).items()
            if column in places
        ]
        stamp, identity = places["timestamp"], [places.get(column) for column in _IDENTITY]
        has_reserve = "reserved" in places or {"total", "free"} <= places.keys()
        subtracted = self._reading.reserve_bytes
        if not has_reserve and subtracted is None and "used" in places:
            self.assumed.reserve_excluded = True

        def parse(cells: Any) -> RecordedCard:  # noqa: ANN401 - a list of CSV cells or a JSON object
            try:
                ts_ms = stamps.parse(cells[stamp])
                host, card = cards.parse(*[None if place is None else cells[place] for place in identity])
                values = card.copy()
                for field, place, parse in parsers:
                    values[field] = parse(cells[place])
            except TypeError:  # lists and objects in cells are not hashable, so cached parsers fail
                raise ValueError("a field holds a list or an object where a single value is needed") from None
            used, free = values.get("memory_used_bytes"), values.pop("free", None)
            if subtracted is not None:
                values["memory_used_bytes"] = None if used is None else max(0, used - subtracted)
                values["memory_reserved_bytes"] = subtracted
            elif has_reserve:
                limit, reserved = values.get("memory_limit_bytes"), values.get("memory_reserved_bytes")
                values["memory_reserved_bytes"] = _reserved(used, limit, free, reserved)
            else:
                values["memory_reserved_bytes"] = 0
            if values.get("utilization") is not None:
                values["utilization_coverage_ms"] = 0
            if used is None:
                row = file_layout.row(cells)
                memory, utilization = row.get("used"), row.get("utilization")
                # A message of loss instead of the memory, or ERR! instead of both.
                if is_lost(memory) or (is_error(memory) and is_error(utilization)):
                    values["failed"] = True
            return RecordedCard(ts_ms, host, values["uuid"], values, source)

        return parse


def _parsers(units: Mapping[str, str]) -> dict[str, tuple[str, Callable[[Cell], Any]]]:
    """Return by field of ``CardReading``, and ``free``, the column and the parser of its cells."""
    used, total, free, reserved = (
        (kind, memory_parser(f"memory.{kind}", units.get(kind) or "mib"))
        for kind in ("used", "total", "free", "reserved")
    )
    is_ratio = units.get("utilization") == "ratio"
    return {
        "memory_used_bytes": used,
        "memory_limit_bytes": total,
        "memory_reserved_bytes": reserved,
        "free": free,
        "utilization": ("utilization", (ratio_parser if is_ratio else percent_parser)("utilization.gpu")),
        "utilization_encoder": ("encoder", percent_parser("utilization.encoder")),
        "utilization_decoder": ("decoder", percent_parser("utilization.decoder")),
        "power_watts": ("power", watts),
        "temperature_celsius": ("temperature", celsius),
        "clock_reasons": ("clock_reasons", clock_reasons),
        **{field: (field, ratio_parser(field)) for field in Activity._fields},
    }


def _reserved(used: int | None, total: int | None, free: int | None, reserved_bytes: int | None) -> int | None:
    """Return the driver's reserve [bytes]: recorded, else total - used - free; ``None`` if that is not positive.

    A computed 0 means only that used memory contains the reserve.
    """
    if reserved_bytes is not None or used is None or total is None or free is None:
        return reserved_bytes
    computed = total - used - free
    return computed if computed > 0 else None


def read_apps(source: RecordedFile, timezone: tzinfo, ignored: Sequence[str] = ()) -> Iterator[AppRow]:
    """Return the rows of a ``--query-compute-apps`` file in its order. Raises DataError for an invalid line.

    ``ignored`` are names of programs that do not count as holders of a card.
    """
    stamps = Timestamps(timezone)

    def make(file_layout: Layout, where: str) -> Callable[[Any], AppRow]:
        require_columns(file_layout, where, *APP_QUERY)
        parse_memory = remembered(memory_parser("used_gpu_memory", file_layout.units.get("used") or "mib"))

        def parse(cells: Any) -> AppRow:  # noqa: ANN401 - a list of CSV cells or a JSON object
            row = file_layout.row(cells)
            uuid, pid = label(row["uuid"], "gpu_uuid"), whole(row["pid"], "pid", _MAX_PID)
            if uuid is None or pid is None:
                raise ValueError("gpu_uuid or pid is missing")
            name = program(row.get("program"))
            process = ProcessReading(
                pid=pid,
                type=ProcessType.IGNORED if name in ignored else ProcessType.COMPUTE,
                comm=name,
                memory_bytes=parse_memory(row.get("used")),
            )
            return AppRow(stamps.parse(row["timestamp"]), uuid, process, source)

        return parse

    return (read_json_lines if source.json_lines else read_csv)(source, APP_COLUMNS, make)


def program(cell: Cell) -> str | None:
    """Return the base name of a process's path, without options, at most 64 characters; ``None`` if unknown."""
    try:
        text = label(cell, "process_name")
    except ValueError:  # processes choose their names, so an unusual one must not make the import fail
        text = "".join(char for char in str(cell)[:_LONGEST_PATH] if char.isprintable()).strip()
    if not text:
        return None
    path = _OPTIONS.split(text, maxsplit=1)[0]
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1][:64] or None
