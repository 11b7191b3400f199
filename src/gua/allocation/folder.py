"""A folder of files, one allocation each, read again only where a file changed.

A file that is written, renamed or removed changes its folder's time, so that while that stands there is nothing new but
in files that somebody wrote in place, or whose mode or owner changed: some are looked at in each tick, in turn.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Final

from gua.allocation.card_names import CardTable
from gua.allocation.file_format import FileAllocation, parse_file
from gua.allocation.trusted_files import Stamp, distrusted, read_trusted, refusal, stamp
from gua.core.allocation import Allocation, CardKey

# Not in /run/gua: that is the agent's, and systemd empties it whenever the agent stops.
DEFAULT_FOLDER: Final = Path("/run/gua-allocations")
MOST_FILES: Final = 4096
SLURM: Final = "slurm"
# In how many looks each file is looked at once, and at how many at least in each.
_TURNS: Final = 8
_LEAST_FILES: Final = 8
# Times of folders are those of the kernel's last timer tick: two changes within one look the same.
_SETTLED_NS: Final = 1_000_000_000
_PLANNED_MS: Final = 60_000  # who says when a job began may have another clock than who writes its file


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderLook:
    """What the files tell, by file name; ``bad`` says what is wrong with a file. ``reason`` is the whole folder's."""

    told: dict[str, FileAllocation] = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)
    reason: str | None = None
    is_there: bool = True


@dataclass(slots=True)
class _Seen:
    stamp: Stamp
    told: FileAllocation | None
    bad: str | None


_NO_LOOK: Final = FolderLook()


class AllocationFolder:
    """The folder, read once for each look however many ask. To be used from one thread."""

    def __init__(self, path: Path = DEFAULT_FOLDER) -> None:
        self.path = path
        self._seen: dict[str, _Seen] = {}
        self._last_ms: int | None = None
        self._asked: tuple[int, int] | None = None
        self._look = _NO_LOOK
        self._is_whole = False  # the last look was at a folder that could be read, and told of no file that is gone
        self._is_unchanged = False
        self._settled: Stamp | None = None  # of the folder, once it had been as it is for so long when it was listed
        self._turn = cycle(tuple[str, ...]())

    def look(self, since_ms: int, now_ms: int) -> FolderLook:
        """Return what the files tell, also of what has ended already: the same object while nothing changed.

        A file that is gone without having said when it ends, ended at the folder's last change if that was since the
        last look, else at the last look.
        """
        if self._asked != (since_ms, now_ms):
            self._asked = since_ms, now_ms
            self._look = self._read(now_ms)
            self._last_ms = now_ms
        return self._look

    def _read(self, now_ms: int) -> FolderLook:
        try:
            folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            self._seen, self._settled = {}, None
            return FolderLook(
                reason=f"{self.path}: {error.strerror}", is_there=not isinstance(error, FileNotFoundError)
            )
        try:
            listed_ns = time.time_ns()
            status = os.fstat(folder)
            reason = distrusted(status)
            if reason is None and self._stands(folder, status):
                return self._look
            listed = None if reason is not None else self._list(folder)
        except OSError as error:
            reason, listed = error.strerror, None
        finally:
            os.close(folder)
        if listed is None:
            self._seen, self._is_whole, self._settled = {}, False, None
            return FolderLook(reason=f"{self.path}: {reason or f'more than {MOST_FILES} files'}")
        before, self._seen = self._seen, listed
        self._settled = stamp(status) if status.st_ctime_ns + _SETTLED_NS < listed_ns else None
        self._turn = cycle(listed)
        if self._is_unchanged and len(before) == len(listed):
            return self._look
        told = {name: seen.told for name, seen in listed.items() if seen.told is not None}
        bad = {name: seen.bad for name, seen in listed.items() if seen.bad is not None}
        gone = {name: seen.told for name, seen in before.items() if name not in listed and seen.told is not None}
        self._is_whole = not gone
        if gone:
            self._end(told, gone, status.st_mtime_ns // 1_000_000, now_ms)
        return FolderLook(told=told, bad=bad)

    def _stands(self, folder: int, status: os.stat_result) -> bool:
        """Return whether the folder is as it was listed, and so are those files of it whose turn it is."""
        if not self._is_whole or self._settled is None or self._settled != stamp(status):
            return False
        count = min(len(self._seen), max(_LEAST_FILES, -(-len(self._seen) // _TURNS)))
        try:
            return all(
                stamp(os.stat(name, dir_fd=folder, follow_symlinks=False)) == self._seen[name].stamp
                for name in islice(self._turn, count)
            )
        except FileNotFoundError:
            return False

    def _list(self, folder: int) -> dict[str, _Seen] | None:
        """Return each file as it is now, ``None`` if there are too many."""
        listed: dict[str, _Seen] = {}
        count = 0
        self._is_unchanged = self._is_whole
        with os.scandir(folder) as entries:
            for entry in entries:
                count += 1
                if count > MOST_FILES:
                    return None
                name = entry.name
                if not name.endswith(".json") or name.startswith("."):
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # gone since it was listed
                seen, now = self._seen.get(name), stamp(status)
                if seen is None or seen.stamp != now:
                    seen = _read_file(name, folder, status, now)
                    self._is_unchanged = False
                listed[name] = seen
        return listed

    def _end(
        self, told: dict[str, FileAllocation], gone: dict[str, FileAllocation], changed_ms: int, now_ms: int
    ) -> None:
        """Add what is gone to what is told, with its end, unless another file goes on telling of it."""
        keys = {(each.source, each.id) for each in told.values()}
        last_ms = now_ms if self._last_ms is None else self._last_ms
        ended_ms = changed_ms if last_ms < changed_ms <= now_ms else last_ms
        for name, each in gone.items():
            if (each.source, each.id) not in keys:
                until_ms = ended_ms if each.until_ms is None else min(each.until_ms, ended_ms)
                told[name] = replace(each, until_ms=until_ms)


def _read_file(name: str, folder: int, status: os.stat_result, now: Stamp) -> _Seen:
    bad = refusal(status)
    if bad is None:
        try:
            told = parse_file(read_trusted(name, folder))
            is_planned = told.since_ms > status.st_mtime_ns // 1_000_000 + _PLANNED_MS
            return _Seen(now, replace(told, is_planned=True) if is_planned else told, None)
        except OSError as error:
            bad = error.strerror or type(error).__name__
        except ValueError as error:
            bad = str(error)
    return _Seen(now, None, bad)


def merged(told: dict[str, FileAllocation], since_ms: int) -> tuple[dict[str, FileAllocation], str | None]:
    """Return what had not ended at ``since_ms``, each (source, id) once, and what is wrong with two that both go on.

    Where one of two ended and the other goes on, as with a job that runs again, the time between counts, too.
    """
    first: dict[tuple[str, str], str] = {}
    result: dict[str, FileAllocation] = {}
    wrong: str | None = None
    for name in sorted(told):
        each = told[name]
        if each.until_ms is not None and each.until_ms <= since_ms:
            continue
        other = first.setdefault((each.source, each.id), name)
        if other == name:
            result[name] = each
            continue
        before = result[other]
        if before.until_ms is None and each.until_ms is None:
            wrong = wrong or f"{other} and {name} tell of the same allocation"
            continue
        going_on = each if each.until_ms is None else before
        ends = [one.until_ms for one in (each, before) if one.until_ms is not None]
        result[other] = replace(
            going_on,
            since_ms=min(before.since_ms, each.since_ms),
            until_ms=max(ends) if len(ends) == 2 else None,
            cards=tuple(dict.fromkeys((*before.cards, *each.cards))),
        )
    return result, wrong


def allocation_of(told: FileAllocation, cards: frozenset[str]) -> Allocation:
    """Return what a file tells as an allocation of these cards."""
    return Allocation(
        source=told.source,
        id=told.id,
        cards=cards,
        since_ms=told.since_ms,
        until_ms=told.until_ms,
        owner=told.owner,
        uid=told.uid,
        kind=told.kind,
        job_name=told.job_name,
        slurm_job_id=told.id if told.source == SLURM else None,
        workload_kind=told.workload.kind,
        workload_model=told.workload.model,
    )


class Tables:
    """The table of the cards, made anew only where they changed."""

    def __init__(self) -> None:
        self._table = CardTable(())

    def of(self, cards: Sequence[CardKey]) -> CardTable:
        """Return the table of these cards."""
        if self._table.cards != tuple(cards):
            self._table = CardTable(cards)
        return self._table
