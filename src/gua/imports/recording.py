"""Conversion of recorded files to ticks in two passes: the first checks every row, the second yields the ticks.

A recording that fails the first pass yields nothing. Both passes stream: memory does not grow with the files.
"""

from bisect import bisect
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Final

from gua.core.errors import DataError, UsageError
from gua.core.facts import split_gpu_time
from gua.core.moments import format_duration, to_rfc3339
from gua.core.tick import CardReading, Origin, ProcessReading, Tick
from gua.core.words import ProcessList
from gua.imports.recorded_file import RecordedFile, make_ticks, merged, open_source
from gua.imports.rows import AppRow, CardRowReader, Reading, RecordedCard, read_apps

MAX_INTERVAL_MS: Final = 86_400_000
MAX_AHEAD_MS: Final = 86_400_000
"""Limit [ms] up to which a store accepts ticks ahead of the clock: queries ignore later ones."""
_EXACT_MS = 60_000
# One nvidia-smi query stamps its rows within a few milliseconds; its fastest loop takes longer.
_ONE_RUN_MS = 200


@dataclass(kw_only=True, slots=True)
class Survey:
    """Result of the first pass. ``first_ms`` and ``last_ms`` are the times of the first and last row (Unix ms).

    ``card_ticks`` is the number of rows without ``duplicates``, which are identical rows. ``inferred`` is whether
    ``interval_ms`` is the median distance of rows instead of a setting.
    """

    card_ticks: int = 0
    ticks: int = 0
    cards: int = 0
    hosts: tuple[str, ...] = ()
    first_ms: int = 0
    last_ms: int = 0
    interval_ms: int = 0
    inferred: bool = False
    duplicates: int = 0


class Spacings:
    """Histogram of the distances between rows of a card: in ms up to a minute, rounded to seconds above."""

    def __init__(self) -> None:
        self._counts: defaultdict[int, int] = defaultdict(int)

    def add(self, spacing_ms: int) -> None:
        """Count one distance [ms]. The histogram's size is bounded."""
        if spacing_ms > _EXACT_MS:
            spacing_ms = min((spacing_ms + 500) // 1000 * 1000, MAX_INTERVAL_MS + 1000)
        self._counts[spacing_ms] += 1

    def nominal_interval_ms(self) -> int:
        """Return the median distance [ms] (mean of the middle two for an even number) in whole seconds, at least 1 s.

        Raises UsageError without distances, or if the median is more than a day.
        """
        total = sum(self._counts.values())
        if total == 0:
            raise UsageError("one row of each card has no interval: give it with --interval, as in --interval 30s")
        spacings = sorted(self._counts)
        reached = list(accumulate(self._counts[spacing] for spacing in spacings))
        median = sum(spacings[bisect(reached, position)] for position in ((total - 1) // 2, total // 2)) // 2
        if median > MAX_INTERVAL_MS:
            msg = "the rows of a card are more than a day apart: give what each stands for with --interval, as in 1h"
            raise UsageError(msg)
        return max(1000, (median + 500) // 1000 * 1000)


def check_not_ahead(where: str, newest_ms: int, now_ms: int) -> None:
    """Raise DataError if a recording's newest row is more than a day ahead of the clock; both are Unix ms."""
    if newest_ms > now_ms + MAX_AHEAD_MS:
        raise DataError(
            f"{where}: a row is of {to_rfc3339(newest_ms)}, more than a day ahead of this host's clock "
            f"({to_rfc3339(now_ms)}), and a store takes no such ticks: correct the times or the clock"
        )


def survey(rows: Iterable[RecordedCard], *, interval_ms: int | None, in_order: bool) -> Survey:
    """Read and check the merged rows once; return their survey.

    ``interval_ms`` is the nominal interval, inferred if ``None``. ``in_order`` requires rows of all cards in order of
    time, as joining process lists needs. Raises DataError if times of a card go back or two rows of a card differ at
    one time. Raises UsageError if the interval cannot be inferred.
    """
    result = Survey(inferred=interval_ms is None)
    last: dict[tuple[str, str], RecordedCard] = {}
    spacings = Spacings()
    moment = 0
    for row in rows:
        ts_ms, key = row.ts_ms, (row.host, row.uuid)
        before = last.get(key)
        if before is not None:
            if ts_ms <= before.ts_ms:
                where, uuid = row.source.where, row.uuid
                if row.ts_ms < before.ts_ms:
                    raise DataError(
                        f"{where}: the time of card {uuid} goes back by {format_duration(before.ts_ms - row.ts_ms)} to "
                        f"{to_rfc3339(row.ts_ms)}: nothing was imported; sort the rows of each card by time"
                    )
                if row[:-1] != before[:-1]:
                    raise DataError(
                        f"{where}: card {uuid} has two different rows at {to_rfc3339(row.ts_ms)}: "
                        "nothing was imported; remove one of them"
                    )
                result.duplicates += 1
                continue
            spacings.add(ts_ms - before.ts_ms)
        last[key] = row
        result.card_ticks += 1
        if ts_ms != moment:
            if in_order and ts_ms < result.last_ms:
                raise DataError(
                    f"{row.source.where}: the time goes back to {to_rfc3339(ts_ms)}: "
                    "sort the rows of all cards by time to join --apps to them"
                )
            result.ticks += 1
            moment = ts_ms
            result.last_ms = max(result.last_ms, ts_ms)
            result.first_ms = min(result.first_ms or ts_ms, ts_ms)
    result.cards = len(last)
    result.hosts = tuple(sorted({host for host, _ in last}))
    result.interval_ms = interval_ms or spacings.nominal_interval_ms()
    return result


@dataclass(slots=True)
class _List:
    """The processes of one card in one nvidia-smi query, by pid."""

    ts_ms: int
    processes: dict[int, ProcessReading] = field(default_factory=dict)


class ProcessLists:
    """Process lists of all cards, queried in the order of time; only lists near the queried time are retained."""

    def __init__(self, rows: Iterator[AppRow], interval_ms: int) -> None:
        self._rows = rows
        self._interval_ms = interval_ms
        self._ahead: AppRow | None = next(rows, None)
        self._lists: defaultdict[str, deque[_List]] = defaultdict(deque)

    def at(self, uuid: str, ts_ms: int) -> tuple[ProcessReading, ...] | None:
        """Return the card's processes at a time (Unix ms), ``None`` without a list within half an interval."""
        half_ms = self._interval_ms // 2
        while self._ahead is not None and self._ahead.ts_ms <= ts_ms + half_ms + _ONE_RUN_MS:
            self._add(self._ahead, oldest_ms=ts_ms - half_ms)
            self._ahead = next(self._rows, None)
        nearest = min(
            (each for each in self._lists.get(uuid, ()) if abs(each.ts_ms - ts_ms) * 2 <= self._interval_ms),
            key=lambda each: abs(each.ts_ms - ts_ms),
            default=None,
        )
        return None if nearest is None else tuple(nearest.processes.values())

    def _add(self, row: AppRow, *, oldest_ms: int) -> None:
        lists = self._lists[row.uuid]
        while lists and lists[0].ts_ms < oldest_ms:
            lists.popleft()
        # A repeated pid belongs to the next query, however soon that follows.
        pid = row.process.pid
        if not lists or pid in lists[-1].processes or row.ts_ms - lists[-1].ts_ms > _ONE_RUN_MS:
            lists.append(_List(ts_ms=row.ts_ms))
        lists[-1].processes[pid] = row.process


class Recording:
    """The files of one recording: card files, and optionally process files.

    ``ignored`` are programs that do not count as holders of a card. ``joined`` is the number of card ticks with a
    process list in the last pass; ``assumed`` are assumptions for facts that the files lack.
    """

    def __init__(
        self,
        files: Sequence[Path],
        apps: Sequence[Path] = (),
        *,
        reading: Reading,
        ignored: Sequence[str] = (),
    ) -> None:
        """Check the files. Raises UsageError, UnavailableError or DataError as :func:`open_source` does."""
        self._cards = CardRowReader(reading)
        self.assumed = self._cards.assumed
        self._read_apps = partial(read_apps, timezone=reading.timezone, ignored=ignored)
        self._sources = [open_source(path) for path in dict.fromkeys(files)]
        self._app_sources = [open_source(path) for path in dict.fromkeys(apps)]
        self._first: list[tuple[int, RecordedFile]] = []
        self._first_apps: list[tuple[int, RecordedFile]] = []
        self.joined = 0

    def survey(self, interval_ms: int | None = None) -> Survey:
        """Read and check every row once and return the survey; without ``interval_ms`` the interval is inferred.

        Raises DataError for invalid, missing or unordered rows, UsageError if the interval cannot be inferred.
        """
        self._first = []
        for source in self._sources:
            first = next(self._cards.read(source), None)
            if first is None:
                named = f" ({source.left_out[0]})" if source.left_out else ""
                raise DataError(f"{source.path} has no rows{named}: give a recording with at least one")
            self._first.append((first.ts_ms, source))
        # A process file without rows is valid: no processes ran.
        first_apps = ((next(self._read_apps(source), None), source) for source in self._app_sources)
        self._first_apps = [(row.ts_ms, source) for row, source in first_apps if row is not None]
        last_ms = 0
        for row in merged(self._first_apps, self._read_apps):
            if row.ts_ms < last_ms:
                raise DataError(f"{row.source.where}: the time goes back: sort the rows by time")
            last_ms = row.ts_ms
        return survey(merged(self._first, self._cards.read), interval_ms=interval_ms, in_order=bool(self._app_sources))

    def ticks(self, surveyed: Survey, origin: Origin) -> Iterator[Tick]:
        """Return the ticks, after :meth:`survey`: the rows are read again, and those of one time and host are one tick.

        A row covers the interval before it, at most back to the previous row of its card.
        """
        lists = None
        if self._app_sources:
            lists = ProcessLists(merged(self._first_apps, self._read_apps), surveyed.interval_ms)
        self.joined = 0
        return make_ticks(self._readings(lists, surveyed.interval_ms), origin)

    def _readings(self, lists: ProcessLists | None, interval_ms: int) -> Iterator[tuple[int, str, int, CardReading]]:
        last_ms: dict[tuple[str, str], int] = {}
        for row in merged(self._first, self._cards.read):
            ts_ms, key = row.ts_ms, (row.host, row.uuid)
            before_ms = last_ms.get(key)
            if before_ms == ts_ms:
                continue
            last_ms[key] = ts_ms
            duration_ms = interval_ms if before_ms is None else min(interval_ms, ts_ms - before_ms)
            processes = None if lists is None else lists.at(row.uuid, ts_ms)
            self.joined += processes is not None
            yield ts_ms, row.host, interval_ms, _reading(row, duration_ms, processes)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return descriptions of skipped lines, the first five of every file."""
        return tuple(text for source in (*self._sources, *self._app_sources) for text in source.left_out)

    @property
    def left_out_lines(self) -> int:
        """Return the number of skipped lines in all files."""
        return sum(source.left_out_lines for source in (*self._sources, *self._app_sources))


def _reading(row: RecordedCard, duration_ms: int, processes: tuple[ProcessReading, ...] | None) -> CardReading:
    return CardReading(
        duration_ms=duration_ms,
        gpu_time_ms=duration_ms,
        process_list=ProcessList.ABSENT if processes is None else ProcessList.KNOWN,
        vendor="NVIDIA",
        processes=split_gpu_time(duration_ms, processes) if processes else (),
        **row.values,
    )
