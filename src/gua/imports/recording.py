"""Recorded files to ticks, in two passes: the first checks every row, the second makes the ticks.

Nothing is delivered of a recording that the first pass refuses. Both stream: memory does not grow with the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gua.core.attribution import attribute
from gua.core.errors import DataError
from gua.core.tick import CardReading, Origin, ProcessReading, Tick
from gua.core.words import ProcessList
from gua.imports.apps import ProcessLists, check_order
from gua.imports.merge import first_time, merged
from gua.imports.recorded_file import RecordedFile, open_source
from gua.imports.rows import AppRowReader, Assumed, CardRowReader, Reading, RecordedCardRow
from gua.imports.survey import Survey, survey

_VENDOR = "NVIDIA"


class Recording:
    """The files of one recording: of cards, and of the processes beside them.

    ``ignored`` names the programs that do not count as users of a card. ``joined`` counts the card ticks
    of the last pass that found a process list.
    """

    def __init__(
        self,
        files: Sequence[Path],
        apps: Sequence[Path] = (),
        *,
        reading: Reading,
        ignored: Sequence[str] = (),
    ) -> None:
        """Look at the files. Raises UsageError, UnavailableError or DataError for one that is no recording."""
        self._cards = CardRowReader(reading)
        self._apps = AppRowReader(reading)
        self._sources = [open_source(path) for path in dict.fromkeys(files)]
        self._app_sources = [open_source(path) for path in dict.fromkeys(apps)]
        self._ignored = frozenset(ignored)
        self._first: list[tuple[int, RecordedFile]] = []
        self._first_apps: list[tuple[int, RecordedFile]] = []
        self.joined = 0

    def survey(self, interval_ms: int | None = None) -> Survey:
        """Read every row once and return what there is; without ``interval_ms`` the interval is inferred.

        Raises DataError for anything that would make the numbers wrong, UsageError if nothing tells the interval.
        """
        self._first = []
        for source in self._sources:
            first_ms = first_time(source, self._cards.read)
            if first_ms is None:
                named = f" ({source.left_out[0]})" if source.left_out else ""
                msg = f"{source.path} has no rows{named}: give a recording with at least one"
                raise DataError(msg)
            self._first.append((first_ms, source))
        started = [(first_time(source, self._apps.read), source) for source in self._app_sources]
        # No row at all is a good process file: nothing ran.
        self._first_apps = [(first_ms, source) for first_ms, source in started if first_ms is not None]
        check_order(merged(self._first_apps, self._apps.read))
        return survey(merged(self._first, self._cards.read), interval_ms=interval_ms, in_order=bool(self._app_sources))

    def ticks(self, found: Survey, origin: Origin) -> Iterator[Tick]:
        """Read the rows again and return them as ticks: those of one moment and host are one tick.

        A row covers the nominal interval, but never back over the row before it of the same card. Each tick has
        the ``origin`` with the rows' own host.
        """
        lists = (
            ProcessLists(merged(self._first_apps, self._apps.read), found.interval_ms, self._ignored)
            if self._app_sources
            else None
        )
        origins = {host: replace(origin, host=host) for host in found.hosts}
        last_ms: dict[tuple[str, str], int] = {}
        moment = 0
        cards: dict[str, list[CardReading]] = {}
        self.joined = 0
        for row in merged(self._first, self._cards.read):
            ts_ms, card = row.ts_ms, row.card
            if ts_ms != moment:
                yield from _ticks(moment, origins, cards)
                moment, cards = ts_ms, {}
            key = card.host, card.uuid
            before_ms = last_ms.get(key)
            if before_ms == ts_ms:
                continue
            last_ms[key] = ts_ms
            duration_ms = found.interval_ms if before_ms is None else min(found.interval_ms, ts_ms - before_ms)
            processes = None if lists is None else lists.at(card.uuid, ts_ms)
            self.joined += processes is not None
            cards.setdefault(card.host, []).append(_reading(row, duration_ms, processes))
        yield from _ticks(moment, origins, cards)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return what was not used, one line of text each, the most telling few of every file."""
        return tuple(text for source in (*self._sources, *self._app_sources) for text in source.left_out)

    @property
    def left_out_lines(self) -> int:
        """Return how many lines were not used."""
        return sum(source.left_out_lines for source in (*self._sources, *self._app_sources))

    @property
    def assumed(self) -> Assumed:
        """Return what had to be assumed, as the files do not tell it."""
        return self._cards.assumed


def _ticks(ts_ms: int, origins: dict[str, Origin], cards: dict[str, list[CardReading]]) -> Iterator[Tick]:
    for host, readings in cards.items():
        yield Tick(ts_ms=ts_ms, origin=origins[host], cards=tuple(readings))


def _reading(row: RecordedCardRow, duration_ms: int, processes: tuple[ProcessReading, ...] | None) -> CardReading:
    card = row.card
    reading = CardReading(
        uuid=card.uuid,
        duration_ms=duration_ms,
        gpu_time_ms=duration_ms,
        process_list=ProcessList.ABSENT if processes is None else ProcessList.KNOWN,
        index=card.gpu_index,
        name=card.name,
        vendor=_VENDOR,
        driver_version=card.driver_version,
        pci=card.pci,
        mig=card.mig,
        utilization=row.utilization,
        utilization_encoder=row.encoder,
        utilization_decoder=row.decoder,
        utilization_coverage_ms=None if row.utilization is None else 0,
        memory_used_bytes=row.used_bytes,
        memory_limit_bytes=row.total_bytes,
        memory_reserved_bytes=row.reserved_bytes,
        power_watts=row.power_watts,
        temperature_celsius=row.temperature_celsius,
        clock_reasons=row.clock_reasons,
        failed=row.failed,
        processes=processes or (),
    )
    if row.activity is not None:
        reading = replace(reading, **row.activity._asdict())
    return attribute(reading) if processes else reading
