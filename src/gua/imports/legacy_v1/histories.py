"""Conversion of databases of gpu-usage-audit 1.0 to 1.8 to ticks; values that they lack stay unknown."""

import heapq
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

from gua.core.errors import UsageError
from gua.core.facts import split_gpu_time
from gua.core.tick import CardReading, Origin, ProcessReading, Tick
from gua.core.words import ProcessList, ProcessType
from gua.imports.legacy_v1.contents import Contents, LegacyDatabase
from gua.imports.recorded_file import make_ticks
from gua.imports.rows import DEFAULT_HOST
from gua.imports.values import MIB, Timestamps

_CARD_ROWS: Final = """
SELECT ts, run_id, util_pct, gpu_index, memory_used_mb, temperature_c, power_w, usage_state
FROM card_row WHERE gpu_uuid = ? ORDER BY ts, row
"""
_PROCESS_ROWS: Final = """
SELECT ts, run_id, pid, mem_used_mb, owner_user, loginuid_user, process_name, process_type
FROM process_row WHERE gpu_uuid = ? ORDER BY ts, row
"""
_USER_LENGTH: Final = 256
_NAME_LENGTH: Final = 64
# The recorded process name is the kernel's, which has at most 15 bytes.
_COMM_BYTES: Final = 15


class Process(NamedTuple):
    """A row of ``proc_sample``, without the time and card, which are in the card's row."""

    run: int | None
    pid: int
    mib: int | None
    user: str | None
    login: str | None
    name: str | None
    type: str | None


class Row(NamedTuple):
    """A row of ``gpu_sample`` with the processes of the same card, time and run. ``file`` is the database's number."""

    ts: str
    file: int
    uuid: str
    run: int | None
    processes: Sequence[Process]
    util_pct: int | None
    gpu_index: int | None
    used_mib: int | None
    temperature_celsius: int | None
    power_watts: int | None
    usage_state: str | None


def _rows(database: LegacyDatabase, file: int, uuid: str) -> Iterator[Row]:
    processes = _Processes(database, uuid)
    for ts, run, *values in database.rows(_CARD_ROWS, (uuid,)):
        yield Row(ts, file, uuid, run, processes.at(ts, run), *values)


class _Processes:
    """Processes of one card, queried in the order of time."""

    def __init__(self, database: LegacyDatabase, uuid: str) -> None:
        self._rows: Iterator[tuple[Any, ...]] = database.rows(_PROCESS_ROWS, (uuid,))
        self._ahead = next(self._rows, None)
        self._ts = ""
        self._processes: list[Process] = []

    def at(self, ts: str, run: int | None) -> Sequence[Process]:
        """Return the processes of this time and run; process rows without a card row of that time are skipped."""
        if ts != self._ts:
            self._ts, self._processes = ts, []
            while self._ahead is not None and self._ahead[0] <= ts:
                if self._ahead[0] == ts:
                    self._processes.append(Process(*self._ahead[1:]))
                self._ahead = next(self._rows, None)
        return [process for process in self._processes if process.run == run]


@dataclass(slots=True)
class ImportCounts:
    """Numbers of imported card ticks and process rows, and the first and last time (Unix ms).

    ``duplicates`` is the number of skipped rows that another file has as well. ``lists_unknown`` is the number of card
    ticks without a reliable process list.
    """

    card_ticks: int = 0
    processes: int = 0
    duplicates: int = 0
    lists_unknown: int = 0
    first_ms: int = 0
    last_ms: int = 0


class Histories:
    """The databases of one import, read in two passes: the first checks all of them, the second yields the ticks.

    ``hosts`` are the hosts of the cards, ``cards`` is the number of cards, ``intervals_ms`` are all intervals [ms].
    """

    def __init__(
        self, files: Sequence[Path], *, host: str | None, interval_ms: int | None, ignored: Sequence[str]
    ) -> None:
        """Open and check all files. Raises UsageError, UnavailableError or DataError if one cannot be imported.

        ``host`` is the host of all cards; if ``None``, the databases' own. ``interval_ms`` is for rows of 1.0.0 to
        1.0.2, which recorded no interval. ``ignored`` are programs that do not count as holders of a card.
        """
        self._closing = ExitStack()
        self._ignored = frozenset(name.encode()[:_COMM_BYTES].decode(errors="replace") for name in ignored)
        self._databases: list[tuple[LegacyDatabase, Contents]] = []
        self._listed: dict[str, tuple[Sequence[Process], int, tuple[ProcessReading, ...]]] = {}
        self.counts = ImportCounts()
        try:
            for path in dict.fromkeys(files):
                database = LegacyDatabase(path)
                self._closing.callback(database.close)
                self._databases.append((database, Contents(database)))
            self.contents = tuple(contents for _, contents in self._databases)
            self.cards = len({uuid for contents in self.contents for uuid in contents.cards})
            self._hosts = [_Hosts(contents, host) for contents in self.contents]
            self.hosts = tuple(sorted({name for hosts in self._hosts for name in hosts.names}))
            self._intervals = [contents.interval_ms(interval_ms) for contents in self.contents]
            self.intervals_ms = tuple(sorted({each for of_run in self._intervals for each in of_run.values()}))
        except BaseException:
            self.close()
            raise

    @property
    def newest_ms(self) -> tuple[tuple[str, int], ...]:
        """Return the path of each database and the time of its newest card row (Unix ms)."""
        return tuple(
            (database.where, Timestamps(UTC).parse(database.value("SELECT max(ts) FROM gpu_sample")))
            for database, _ in self._databases
        )

    def ticks(self, origin: Origin) -> Iterator[Tick]:
        """Yield the ticks of all databases by time, and count them in ``counts``: one for each time, host and interval.

        A row covers the interval of its run, at most back to the previous row of its card. ``processes_seen`` are those
        of the lists of both rows, ``None`` where one is unknown or the rows are more than 1.5 intervals apart.
        """
        self.counts = counts = ImportCounts()
        for tick in make_ticks(self._readings(), origin):
            counts.card_ticks += len(tick.cards)
            counts.first_ms = counts.first_ms or tick.ts_ms
            counts.last_ms = tick.ts_ms
            yield tick

    def _readings(self) -> Iterator[tuple[int, str, int, CardReading]]:
        stamps = Timestamps(UTC)
        last: dict[tuple[str, str], tuple[int, int]] = {}
        pids_of: dict[tuple[str, str], frozenset[int] | None] = {}
        # Merged by time; each card is read in index order of its database.
        by_card = (
            _rows(database, file, uuid)
            for file, (database, contents) in enumerate(self._databases)
            for uuid in contents.cards
        )
        for row in heapq.merge(*by_card, key=itemgetter(0)):
            host, interval_ms = self._hosts[row.file].at(row.ts), self._intervals[row.file][row.run]
            ts_ms = stamps.parse(row.ts)
            before_ms, before_file = last.get((host, row.uuid), (0, row.file))
            if ts_ms <= before_ms:
                if before_file != row.file:
                    self.counts.duplicates += 1
                    continue
                # Two daemons may write to one database: their rows of one time are separate ticks.
                ts_ms = before_ms + 1
            last[host, row.uuid] = ts_ms, row.file
            reading = self._reading(row, min(interval_ms, ts_ms - before_ms))
            pids = frozenset(each.pid for each in row.processes) if reading.process_list is ProcessList.KNOWN else None
            pids_before = pids_of.get((host, row.uuid)) if 2 * (ts_ms - before_ms) <= 3 * interval_ms else None
            if pids is not None and pids_before is not None:
                reading.processes_seen = len(pids | pids_before)
            pids_of[host, row.uuid] = pids
            yield ts_ms, host, interval_ms, reading

    def close(self) -> None:
        """Close the files."""
        self._closing.close()

    def _reading(self, row: Row, duration_ms: int) -> CardReading:
        contents = self._databases[row.file][1]
        name, limit_mib = contents.models.get(row.uuid, (None, None))
        process_list = _process_list(contents, row)
        self.counts.processes += len(row.processes)
        self.counts.lists_unknown += process_list is not ProcessList.KNOWN
        return CardReading(
            uuid=row.uuid,
            duration_ms=duration_ms,
            gpu_time_ms=duration_ms,
            process_list=process_list,
            index=row.gpu_index,
            name=name,
            vendor="NVIDIA",
            driver_version=contents.driver_version,
            utilization=None if row.util_pct is None else row.util_pct / 100,
            utilization_coverage_ms=None if row.util_pct is None else 0,
            # From NVML's older call, whose "used" contains the driver's reserve; the size of that is unknown.
            memory_used_bytes=None if row.used_mib is None else row.used_mib * MIB,
            memory_limit_bytes=None if limit_mib is None else limit_mib * MIB,
            power_watts=row.power_watts,
            temperature_celsius=row.temperature_celsius,
            processes=self._processes(row, duration_ms) if row.processes else (),
        )

    def _processes(self, row: Row, gpu_time_ms: int) -> tuple[ProcessReading, ...]:
        # A card's processes rarely change between ticks: this cache saves a third of the time.
        rows, before_ms, readings = self._listed.get(row.uuid, ((), 0, ()))
        if rows != row.processes or before_ms != gpu_time_ms:
            by_pid: dict[int, ProcessReading] = {}
            for each in row.processes:
                process = _process(each, self._ignored)
                same = by_pid.get(each.pid)
                if same is not None:
                    # Up to 1.3 a process may be listed twice: reports of that version add up both.
                    both = [reading.memory_bytes for reading in (same, process) if reading.memory_bytes is not None]
                    process = replace(same, memory_bytes=sum(both) if both else None)
                by_pid[each.pid] = process
            readings = split_gpu_time(gpu_time_ms, tuple(by_pid.values()))
            self._listed[row.uuid] = row.processes, gpu_time_ms, readings
        return readings


class _Hosts:
    """Hosts of the rows of one database, by time: several hosts may have recorded one after the other."""

    def __init__(self, contents: Contents, name: str | None) -> None:
        self._starts = () if name is not None else contents.hosts
        self.names = tuple(_text(host.name) or DEFAULT_HOST for host in self._starts) or (name or DEFAULT_HOST,)
        if any(after.first <= before.last for before, after in pairwise(self._starts)):
            raise UsageError(
                f"{contents.where} has the hosts {self.names[0]} and {self.names[1]} at the same time: "
                "name the host of the cards with --host"
            )

    def at(self, ts: str) -> str:
        """Return the name of the host that recorded at this time."""
        return self.names[max(sum(start.first <= ts for start in self._starts) - 1, 0)]


def _process_list(contents: Contents, row: Row) -> ProcessList:
    """Return KNOWN, FAILED or ABSENT for the row's process list, as :class:`Contents` determined."""
    if row.usage_state is not None:
        return ProcessList.KNOWN
    if row.run in contents.runs_with_state:
        return ProcessList.FAILED
    return ProcessList.KNOWN if row.run in contents.runs_with_lists else ProcessList.ABSENT


@lru_cache(maxsize=10_000)
def _process(row: Process, ignored: frozenset[str]) -> ProcessReading:
    name = _text(row.name, _NAME_LENGTH)
    kind = ProcessType.GRAPHICS if row.type == "graphics" else ProcessType.COMPUTE
    return ProcessReading(
        pid=row.pid,
        type=ProcessType.IGNORED if name in ignored else kind,
        # The owner is the process's user; 1.0 to 1.6 may have only the login user.
        owner=_text(row.user) or _text(row.login),
        comm=name,
        memory_bytes=None if row.mib is None else row.mib * MIB,
    )


def _text(value: object, length: int = _USER_LENGTH) -> str | None:
    """Return a name without unprintable characters, cut to ``length``; ``None`` if nothing is left."""
    return "".join(char for char in str(value or "") if char.isprintable()).strip()[:length] or None
