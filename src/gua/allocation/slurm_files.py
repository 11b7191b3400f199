"""Files of jobs that sites have already: jobstats' and CEEMS' ``/run/gpustat``, dcgm-exporter's job mapping.

In the first a file is named after a GPU (``0``, or a MIG instance's UUID) and holds ``JOBID UID``. In the second it is
named ``0``, or ``2.1`` for the GPU instance 1 of GPU 2, and holds a job id a line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gua.allocation.card_names import CardName
from gua.allocation.file_format import FileAllocation
from gua.allocation.folder import SLURM
from gua.allocation.trusted_files import Stamp, distrusted, read_trusted, refusal, stamp

GPUSTAT: Final = Path("/run/gpustat")
_MOST_FILES: Final = 1024
_MOST_JOBS: Final = 1024
_NUMBER: Final = re.compile(r"[0-9]{1,4}")
_MIG: Final = re.compile(r"MIG-[0-9A-Za-z/-]{1,120}")
_INSTANCE: Final = re.compile(r"([0-9]{1,4})(?:\.([0-9]{1,4}))?")
_JOB: Final = re.compile(r"[0-9]{1,10}")
_UID: Final = re.compile(r"[0-9]{1,9}")

Owner = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class _Content:
    stamp: Stamp
    owners: tuple[Owner, ...]
    since_ms: int
    bad: str | None


class CardFiles:
    """A folder with one file for each card that has a job. To be used from one thread.

    A job's time on a card begins with the file's last change. A file that is gone, or empty, ended it at the last
    change of the folder, or file, if that was since the last look, else at the last look.
    """

    def __init__(
        self,
        path: Path,
        card_of: Callable[[str], CardName | None],
        owners_of: Callable[[str], tuple[Owner, ...] | None],
    ) -> None:
        self.path = path
        self._card_of = card_of
        self._owners_of = owners_of
        self._contents: dict[str, _Content] = {}
        self._since: dict[tuple[str, Owner], int] = {}
        self._last_ms: int | None = None

    def look(self, now_ms: int) -> tuple[list[FileAllocation], str | None]:
        """Return the jobs of each card, also those that have just ended, and why the folder cannot be read."""
        try:
            folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            return self._failed(f"{self.path}: {error.strerror}")
        try:
            status = os.fstat(folder)
            reason = distrusted(status)
            contents = self._read(folder) if reason is None else {}
        except OSError as error:
            return self._failed(f"{self.path}: {error.strerror}")
        finally:
            os.close(folder)
        if contents is None:
            return self._failed(f"{self.path}: more than {_MOST_FILES} files")
        if reason is not None:
            return self._failed(f"{self.path}: {reason}")
        return self._told(contents, status.st_mtime_ns // 1_000_000, now_ms)

    def _failed(self, reason: str) -> tuple[list[FileAllocation], str]:
        self._contents, self._since, self._last_ms = {}, {}, None
        return [], reason

    def _read(self, folder: int) -> dict[str, _Content] | None:
        contents: dict[str, _Content] = {}
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if count == _MOST_FILES:
                    return None
                if self._card_of(entry.name) is None:
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                before, now = self._contents.get(entry.name), stamp(status)
                unchanged = before is not None and before.stamp == now
                contents[entry.name] = before if unchanged and before else self._content(entry.name, folder, status)
        return contents

    def _content(self, name: str, folder: int, status: os.stat_result) -> _Content:
        bad = refusal(status)
        owners: tuple[Owner, ...] | None = ()
        if bad is None:
            try:
                owners = self._owners_of(read_trusted(name, folder).decode("ascii", "replace"))
                bad = "no job id" if owners is None else None
            except OSError as error:
                bad = error.strerror or type(error).__name__
            except ValueError as error:
                bad = str(error)
        return _Content(stamp(status), owners or (), status.st_mtime_ns // 1_000_000, bad)

    def _told(
        self, contents: dict[str, _Content], changed_ms: int, now_ms: int
    ) -> tuple[list[FileAllocation], str | None]:
        last_ms = now_ms if self._last_ms is None else self._last_ms
        current = {(name, owner): content.since_ms for name, content in contents.items() for owner in content.owners}
        before = self._since
        # What another job's line changed in a file did not begin this one anew.
        self._since = {key: before.get(key, since_ms) for key, since_ms in current.items()}
        told: list[FileAllocation] = []
        for (name, owner), since_ms in self._since.items():
            told.append(self._one(name, owner, since_ms, None))
        for (name, owner), since_ms in before.items():
            if (name, owner) not in current:
                ended_ms = contents[name].since_ms if name in contents else changed_ms
                ended_ms = ended_ms if last_ms < ended_ms <= now_ms else last_ms
                told.append(self._one(name, owner, since_ms, max(since_ms, ended_ms)))
        self._contents, self._last_ms = contents, now_ms
        bad = [f"{self.path}/{name}: {content.bad}" for name, content in sorted(contents.items()) if content.bad]
        return told, bad[0] if bad else None

    def _one(self, name: str, owner: Owner, since_ms: int, until_ms: int | None) -> FileAllocation:
        card = self._card_of(name)
        cards = () if card is None else (card,)
        job, uid = owner
        return FileAllocation(source=SLURM, id=job, cards=cards, since_ms=since_ms, until_ms=until_ms, uid=uid)


def gpustat(path: Path = GPUSTAT) -> CardFiles:
    """Return the files that jobstats', CEEMS' and others' prologs write."""
    return CardFiles(path, _card_of_gpustat, _owners_of_gpustat)


def job_mapping(path: Path) -> CardFiles:
    """Return the files of dcgm-exporter's job mapping."""
    return CardFiles(path, _card_of_mapping, _owners_of_mapping)


def _card_of_gpustat(name: str) -> CardName | None:
    if _MIG.fullmatch(name):
        return CardName("uuid", name)
    return CardName("gres", int(name)) if _NUMBER.fullmatch(name) else None


def _owners_of_gpustat(text: str) -> tuple[Owner, ...] | None:
    words = text.split()
    if not words:
        return ()
    if not _JOB.fullmatch(words[0]) or (len(words) > 1 and not _UID.fullmatch(words[1])):
        return None
    return ((words[0], int(words[1]) if len(words) > 1 else None),)


def _card_of_mapping(name: str) -> CardName | None:
    match = _INSTANCE.fullmatch(name)
    return None if match is None else CardName("index", int(match[1]), int(match[2]) if match[2] else None)


def _owners_of_mapping(text: str) -> tuple[Owner, ...] | None:
    lines = text.split()
    if len(lines) > _MOST_JOBS or not all(_JOB.fullmatch(line) for line in lines):
        return None
    return tuple((line, None) for line in dict.fromkeys(lines))
