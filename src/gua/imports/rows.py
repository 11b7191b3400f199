"""Rows: one card, or one process on a card, at one moment; and how a file's cells become them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import tzinfo
from operator import itemgetter
from typing import Any, Final, NamedTuple

from gua.core.ports import Activity
from gua.core.words import Mig
from gua.imports import dmon
from gua.imports.columns import (
    APP_COLUMNS,
    CARD_COLUMNS,
    DMON_COLUMNS,
    Layout,
    require_apps,
    require_cards,
    require_dmon,
)
from gua.imports.formats import read_csv, read_json_lines
from gua.imports.recorded_file import RecordedFile
from gua.imports.values import (
    Cell,
    CellError,
    Timestamps,
    celsius,
    clock_reasons,
    label,
    memory_parser,
    percent_parser,
    ratio_parser,
    remembered,
    says_error,
    says_lost,
    watts,
    whole,
)

DEFAULT_HOST: Final = "imported"
_MAX_INDEX = 65_535
_MAX_PID = 2**32 - 1
_IDENTITY = ("uuid", "host", "index", "name", "driver", "pci", "mig")
_MEASURED = (
    "timestamp", "used", "total", "free", "reserved",
    "utilization", "encoder", "decoder", "power", "temperature", "clock_reasons",
)  # fmt: skip
_MIG = {"enabled": Mig.PARENT, "disabled": Mig.NONE}
# Some programs write their options into their own name; those are nobody's business here.
_LONGEST_PATH = 4096
_OPTIONS = re.compile(r"\s+[-/]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """How to read: the zone of times without offset, the host, the columns of files without header, the reserve.

    ``host`` ``None`` takes the host from the rows, else ``imported``. ``reserve_bytes`` is subtracted from
    what is used in every row. ``is_dmon`` reads what ``nvidia-smi dmon`` and ``dcgmi dmon`` write. ``cards`` are UUIDs
    by index, for rows that tell none.
    """

    timezone: tzinfo
    host: str | None = None
    columns: tuple[str, ...] = ()
    reserve_bytes: int | None = None
    is_dmon: bool = False
    cards: tuple[str, ...] = ()


class RowCard(NamedTuple):
    """Which card a row is about and what the row says that it is."""

    host: str
    uuid: str
    gpu_index: int | None
    name: str | None
    driver_version: str | None
    pci: str | None
    mig: Mig | None


class RecordedCardRow(NamedTuple):
    """One card at one moment, in the units of a card reading. ``source`` stands at the row's line when it is read."""

    ts_ms: int
    card: RowCard
    used_bytes: int | None
    total_bytes: int | None
    reserved_bytes: int | None
    utilization: float | None
    encoder: float | None
    decoder: float | None
    power_watts: float | None
    temperature_celsius: float | None
    clock_reasons: int | None
    activity: Activity | None
    failed: bool | None
    source: RecordedFile


class AppRow(NamedTuple):
    """One process on one card at one moment."""

    ts_ms: int
    uuid: str
    pid: int
    program: str | None
    memory_bytes: int | None
    source: RecordedFile


@dataclass(slots=True)
class Assumed:
    """What had to be assumed: that use excludes the driver's reserve; the zone of times without an offset.

    ``memory_unknown`` is whether some file has no column of memory.
    """

    reserve_excluded: bool = False
    times_without_offset: bool = False
    memory_unknown: bool = False


class CardRowReader:
    """Reads the card rows of files, in CSV and in JSON Lines."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self.assumed = Assumed()

    def read(self, source: RecordedFile) -> Iterator[RecordedCardRow]:
        """Return the rows of one file in its order. Raises DataError for a line that is no row."""
        stamps = Timestamps(self._reading.timezone)
        cards = _Cards(self._reading.host, self._reading.cards)

        is_dmon = self._reading.is_dmon

        def make(file_layout: Layout, where: str) -> Callable[[Any], RecordedCardRow]:
            (require_dmon if is_dmon else require_cards)(file_layout, where)
            self.assumed.memory_unknown |= "used" not in file_layout.places
            return self._parser(file_layout, source, stamps, cards)

        if source.json_lines:
            yield from read_json_lines(source, DMON_COLUMNS if is_dmon else CARD_COLUMNS, make)
        elif is_dmon:
            yield from dmon.read(source, make)
        else:
            yield from read_csv(source, CARD_COLUMNS, make, self._reading.columns)
        self.assumed.times_without_offset |= stamps.without_offset

    def _parser(
        self, file_layout: Layout, source: RecordedFile, stamps: Timestamps, cards: _Cards
    ) -> Callable[[Any], RecordedCardRow]:
        used_of, total_of, free_of, reserved_of = (
            remembered(memory_parser(f"memory.{kind}", file_layout.units.get(kind) or "mib"))
            for kind in ("used", "total", "free", "reserved")
        )
        utilization_of, encoder_of, decoder_of = (
            remembered(percent_parser(f"utilization.{kind}")) for kind in ("gpu", "encoder", "decoder")
        )
        if file_layout.units.get("utilization") == "ratio":
            utilization_of = remembered(ratio_parser("utilization.gpu"))
        power_of, temperature_of, reasons_of = remembered(watts), remembered(celsius), remembered(clock_reasons)
        identity, measured = (
            itemgetter(*(file_layout.place(field) for field in fields)) for fields in (_IDENTITY, _MEASURED)
        )
        activity_of = _activity_parser(file_layout)
        tells_reserve = "reserved" in file_layout.places or {"total", "free"} <= file_layout.places.keys()
        subtracted = self._reading.reserve_bytes
        if not tells_reserve and subtracted is None and "used" in file_layout.places:
            self.assumed.reserve_excluded = True
        stamp_of, card_of = stamps.parse, cards.parse

        def parse(cells: Any) -> RecordedCardRow:  # noqa: ANN401 - a list of CSV cells or a JSON object
            (
                stamp, used_cell, total_cell, free_cell, reserved_cell,
                utilization_cell, encoder, decoder, power, heat, reasons,
            ) = measured(cells)  # fmt: skip
            try:
                used, total = used_of(used_cell), total_of(total_cell)
                utilization = utilization_of(utilization_cell)
                reserved: int | None = 0
                if subtracted is not None:
                    used, reserved = None if used is None else max(0, used - subtracted), subtracted
                elif tells_reserve:
                    reserved = _reserved(used, total, free_of(free_cell), reserved_of(reserved_cell))
                return RecordedCardRow(
                    stamp_of(stamp),
                    card_of(identity(cells)),
                    used,
                    total,
                    reserved,
                    utilization,
                    encoder_of(encoder),
                    decoder_of(decoder),
                    power_of(power),
                    temperature_of(heat),
                    reasons_of(reasons),
                    None if activity_of is None else activity_of(cells),
                    True if used is None and _lost(used_cell, utilization_cell) else None,
                    source,
                )
            except TypeError:  # a list or an object inside the row cannot be looked up
                msg = "a field holds a list or an object where a single value is needed"
                raise CellError(msg) from None

        return parse


def _activity_parser(file_layout: Layout) -> Callable[[Any], Activity] | None:
    """Return what makes activity of a row's cells, ``None`` where the file has no such column."""
    if not set(Activity._fields) & file_layout.places.keys():
        return None
    parsers = [remembered(ratio_parser(field)) for field in Activity._fields]
    picked = itemgetter(*(file_layout.place(field) for field in Activity._fields))
    return lambda cells: Activity(*(parse(cell) for parse, cell in zip(parsers, picked(cells), strict=True)))


def _reserved(used: int | None, total: int | None, free: int | None, reserved_bytes: int | None) -> int | None:
    """Return the driver's reserve: as told, else total - used - free; 0 computed says only that used contains it."""
    if reserved_bytes is not None or used is None or total is None or free is None:
        return reserved_bytes
    computed = total - used - free
    return computed if computed > 0 else None


def _lost(used: Cell, utilization: Cell) -> bool:
    """Tell whether the row says that the card is lost: not merely that one value could not be read."""
    return says_lost(used) or (says_error(used) and says_error(utilization))


class _Cards:
    """The cards of one file by the cells that identify them."""

    def __init__(self, host: str | None, given: tuple[str, ...]) -> None:
        self._host = host
        self._given = given
        self._uuids: dict[tuple[str, int], str] = {}
        self._cards: dict[tuple[Cell, ...], RowCard] = {}

    def parse(self, cells: tuple[Cell, ...]) -> RowCard:
        """Return the card of these identity cells. Raises CellError."""
        card = self._cards.get(cells)
        if card is None:
            if len(self._cards) >= 20_000:
                self._cards.clear()
            card = self._cards[cells] = self._card(cells)
        return card

    def _card(self, cells: tuple[Cell, ...]) -> RowCard:
        uuid, host, index, name, driver, pci, mig = cells
        recorded_host = label(host, "host") or self._host or DEFAULT_HOST
        number, known = whole(index, "index", _MAX_INDEX), label(uuid, "uuid")
        if known is None and number is None:
            msg = "neither uuid nor index tells which card the row is about"
            raise CellError(msg)
        if known is None and number is not None and self._given:
            if number >= len(self._given):
                msg = f"GPU {number} is not among the {len(self._given)} of --cards (name it, too)"
                raise CellError(msg)
            known = self._given[number]
        if known is None:
            # A lost card no longer tells its uuid; its index still does. Without any uuid, the index is all there is.
            known = self._uuids.get((recorded_host, number or 0), f"imported-{recorded_host}-{number}")
        elif number is not None:
            self._uuids[recorded_host, number] = known
        return RowCard(
            host=self._host or recorded_host,
            uuid=known,
            gpu_index=number,
            name=label(name, "name"),
            driver_version=label(driver, "driver_version"),
            pci=label(pci, "pci.bus_id"),
            mig=_MIG.get(str(mig).strip().lower()),
        )


def read_apps(source: RecordedFile, timezone: tzinfo) -> Iterator[AppRow]:
    """Return the rows of one ``--query-compute-apps`` file in its order. Raises DataError for a line that is no row."""
    stamps = Timestamps(timezone)

    def make(file_layout: Layout, where: str) -> Callable[[Any], AppRow]:
        require_apps(file_layout, where)
        return _app_parser(file_layout, source, stamps)

    return (read_json_lines if source.json_lines else read_csv)(source, APP_COLUMNS, make)


def _app_parser(file_layout: Layout, source: RecordedFile, stamps: Timestamps) -> Callable[[Any], AppRow]:
    memory_of = remembered(memory_parser("used_gpu_memory", file_layout.units.get("used") or "mib"))
    uuid_of = remembered(lambda cell: label(cell, "gpu_uuid"))
    program_of = remembered(program)
    picked = itemgetter(*map(file_layout.place, ("timestamp", "uuid", "pid", "program", "used")))

    def parse(cells: Any) -> AppRow:  # noqa: ANN401 - a list of CSV cells or a JSON object
        stamp, uuid_cell, pid_cell, program_cell, used = picked(cells)
        uuid, pid = uuid_of(uuid_cell), whole(pid_cell, "pid", _MAX_PID)
        if uuid is None or pid is None:
            msg = "gpu_uuid or pid is missing"
            raise CellError(msg)
        return AppRow(stamps.parse(stamp), uuid, pid, program_of(program_cell), memory_of(used), source)

    return parse


def program(cell: Cell) -> str | None:
    """Return the base name of a process's path, without options that the program wrote into its name."""
    try:
        text = label(cell, "process_name")
    except CellError:  # a process chooses its own name: a strange one is no reason to refuse the file
        text = "".join(char for char in str(cell)[:_LONGEST_PATH] if char.isprintable()).strip()
    if not text:
        return None
    path = _OPTIONS.split(text, maxsplit=1)[0]
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1][:64] or None
