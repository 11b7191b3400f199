"""Files of jobs that sites have already: jobstats' and CEEMS' ``/run/gpustat``, dcgm-exporter's job mapping.

In the first a file is named after a GPU (``0``, or a MIG instance's UUID) and holds ``JOBID UID``. In the second it is
named ``0``, or ``2.1`` for the GPU instance 1 of GPU 2, and holds a job id a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gua.allocation.card_names import CardName
from gua.allocation.files import SLURM, FileAllocation
from gua.allocation.trusted_files import TrustedFolder
from gua.core.untrusted import require

GPUSTAT: Final = Path("/run/gpustat")
_MOST_FILES: Final = 1024
_MOST_JOBS: Final = 1024
_NUMBER: Final = re.compile(r"[0-9]{1,4}")
_MIG: Final = re.compile(r"MIG-[0-9A-Za-z/-]{1,120}")
_INSTANCE: Final = re.compile(r"([0-9]{1,4})(?:\.([0-9]{1,4}))?")
_JOB: Final = re.compile(r"[0-9]{1,10}")
_UID: Final = re.compile(r"[0-9]{1,9}")

_NO_JOB: Final = "no job id"

Owner = tuple[str, int | None]


class CardFiles:
    """A folder with one file for each card that has a job. To be used from one thread.

    ``card_of`` returns the card of a file's name, ``owners_of`` the jobs of its text, or raises ValueError.
    A job's time on a card begins with the file's last change. A file that is gone, or empty, ended it at the last
    change of the folder, or file, if that was since the last look, else at the last look.
    """

    def __init__(
        self, path: Path, card_of: Callable[[str], CardName | None], owners_of: Callable[[str], tuple[Owner, ...]]
    ) -> None:
        self.path = path
        self._card_of = card_of
        self._files = TrustedFolder(
            path,
            card_of,
            lambda content, _changed_ms: owners_of(content.decode("ascii", "replace")),
            most_files=_MOST_FILES,
        )
        self._since: dict[tuple[str, Owner], int] = {}
        self._last_ms: int | None = None

    def look(self, now_ms: int) -> tuple[list[FileAllocation], str | None]:
        """Return the jobs of each card, also those that have just ended, and why the folder cannot be read."""
        before, self._since = self._since, {}
        last_ms, self._last_ms = now_ms if self._last_ms is None else self._last_ms, None
        try:
            files = self._files.read()
        except OSError as error:
            return [], f"{self.path}: {error.strerror}"
        current = {(name, owner): file.changed_ms for name, file in files.items() for owner in file.content or ()}
        # What another job's line changed in a file did not begin this one anew.
        self._since = {key: before.get(key, since_ms) for key, since_ms in current.items()}
        self._last_ms = now_ms
        told = [self._one(name, owner, since_ms, None) for (name, owner), since_ms in self._since.items()]
        for (name, owner), since_ms in before.items():
            if (name, owner) not in current:
                ended_ms = files[name].changed_ms if name in files else self._files.changed_ms
                ended_ms = ended_ms if last_ms < ended_ms <= now_ms else last_ms
                told.append(self._one(name, owner, since_ms, max(since_ms, ended_ms)))
        bad = [f"{self.path}/{name}: {file.bad}" for name, file in sorted(files.items()) if file.bad]
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


def _owners_of_gpustat(text: str) -> tuple[Owner, ...]:
    job, uid, *_ = [*text.split(), "", ""]
    if not job:
        return ()
    require(_JOB.fullmatch(job) and (not uid or _UID.fullmatch(uid)), _NO_JOB)
    return ((job, int(uid) if uid else None),)


def _card_of_mapping(name: str) -> CardName | None:
    match = _INSTANCE.fullmatch(name)
    return None if match is None else CardName("index", int(match[1]), int(match[2]) if match[2] else None)


def _owners_of_mapping(text: str) -> tuple[Owner, ...]:
    jobs = text.split()
    require(len(jobs) <= _MOST_JOBS and all(map(_JOB.fullmatch, jobs)), _NO_JOB)
    return tuple((job, None) for job in dict.fromkeys(jobs))
