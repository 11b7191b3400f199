"""Slurm as a source: files of prolog and epilog hooks for exact times, files of other tools, and polling."""

import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Final

from gua.allocation.card_names import CardName, CardTable
from gua.allocation.files import (
    FILES,
    SLURM,
    AllocationFolder,
    FileAllocation,
    FilesReader,
    FolderLook,
    find_cards,
    join,
    summarize,
)
from gua.allocation.slurm_conf import GresConf, detect_node
from gua.allocation.slurm_listing import GresListing
from gua.allocation.slurm_poll import PERIOD_SECONDS, PollAnswer, SlurmJob, SlurmPoll
from gua.allocation.sources import Opener, ReaderLook
from gua.allocation.trusted_files import TrustedFolder
from gua.core.allocation import Allocation, CardKey
from gua.core.plaintext import few
from gua.core.untrusted import require
from gua.core.workloads import Work

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
    """A folder with one file for each card with a job. For one thread.

    ``parse_name`` returns the card for a file name, ``parse`` the jobs in its text, or raises ValueError. A job's time
    on a card begins with the file's last change and ends when the file is emptied or removed. That is at the last
    change of file or folder if that is after the last look, else at the last look.
    """

    def __init__(
        self, path: Path, parse_name: Callable[[str], CardName | None], parse: Callable[[str], tuple[Owner, ...]]
    ) -> None:
        self.path = path
        self._parse_name = parse_name
        self._files = TrustedFolder(
            path,
            parse_name,
            lambda content, _changed_ms: parse(content.decode("ascii", "replace")),
            most_files=_MOST_FILES,
        )
        self._since: dict[tuple[str, Owner], int] = {}
        self._last_ms: int | None = None

    def look(self, now_ms: int) -> tuple[list[FileAllocation], str | None]:
        """Return the jobs of each card, including those ended since the last look, and the first error or ``None``."""
        before, self._since = self._since, {}
        last_ms, self._last_ms = now_ms if self._last_ms is None else self._last_ms, None
        try:
            files = self._files.read()
        except OSError as error:
            return [], f"{self.path}: {error.strerror}"
        current = {(name, owner): file.changed_ms for name, file in files.items() for owner in file.content or ()}
        # A change of the file by another job does not restart this one.
        self._since = {key: before.get(key, since_ms) for key, since_ms in current.items()}
        self._last_ms = now_ms
        jobs = [self._allocation(name, owner, since_ms, None) for (name, owner), since_ms in self._since.items()]
        for (name, owner), since_ms in before.items():
            if (name, owner) not in current:
                ended_ms = files[name].changed_ms if name in files else self._files.changed_ms
                ended_ms = ended_ms if last_ms < ended_ms <= now_ms else last_ms
                jobs.append(self._allocation(name, owner, since_ms, max(since_ms, ended_ms)))
        bad = [f"{self.path}/{name}: {file.bad}" for name, file in sorted(files.items()) if file.bad]
        return jobs, bad[0] if bad else None

    def _allocation(self, name: str, owner: Owner, since_ms: int, until_ms: int | None) -> FileAllocation:
        card = self._parse_name(name)
        cards = () if card is None else (card,)
        job, uid = owner
        return FileAllocation(source=SLURM, id=job, cards=cards, since_ms=since_ms, until_ms=until_ms, uid=uid)


def gpustat(path: Path = GPUSTAT) -> CardFiles:
    """Return the reader of the files that the prologs of jobstats, CEEMS and others write."""
    return CardFiles(path, _parse_gpustat_name, _parse_gpustat)


def job_mapping(path: Path) -> CardFiles:
    """Return the reader of dcgm-exporter's job mapping files."""
    return CardFiles(path, _parse_mapping_name, _parse_mapping)


def _parse_gpustat_name(name: str) -> CardName | None:
    if _MIG.fullmatch(name):
        return CardName("uuid", name)
    return CardName("gres", int(name)) if _NUMBER.fullmatch(name) else None


def _parse_gpustat(text: str) -> tuple[Owner, ...]:
    job, uid, *_ = [*text.split(), "", ""]
    if not job:
        return ()
    require(_JOB.fullmatch(job) and (not uid or _UID.fullmatch(uid)), _NO_JOB)
    return ((job, int(uid) if uid else None),)


def _parse_mapping_name(name: str) -> CardName | None:
    match = _INSTANCE.fullmatch(name)
    return None if match is None else CardName("index", int(match[1]), int(match[2]) if match[2] else None)


def _parse_mapping(text: str) -> tuple[Owner, ...]:
    jobs = text.split()
    require(len(jobs) <= _MOST_JOBS and all(map(_JOB.fullmatch, jobs)), _NO_JOB)
    return tuple((job, None) for job in dict.fromkeys(jobs))


PREFIX: Final = "slurm-"
# Tolerated delay between a hook's file and Slurm's own view of the job, in both directions.
_SLACK_MS: Final = 10_000
_MOST_ENDS: Final = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class SlurmSettings:
    """Settings of the Slurm source. ``poll_seconds`` is the period, 0 for never; ``node`` is this node's name."""

    node: str | None = None
    poll_seconds: float = PERIOD_SECONDS
    gpustat: Path = GPUSTAT
    job_mapping: Path | None = None
    procfs: Path = Path("/proc")


@dataclass(slots=True)
class _Gathered:
    """Intermediate result of one look: file allocations by name, errors and notes."""

    files: dict[str, FileAllocation] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(eq=False)
class SlurmReader:
    """Reader of jobs from hook files, files of other tools, and polling; each of them may be missing.

    Each job is reported once, with the times of its file if it has one, else Slurm's. A failed poll makes the source
    fail until the next good one, but jobs in files remain. If Slurm no longer runs a file's job, the job ended at its
    end time in Slurm, or at the poll.
    """

    name = SLURM

    folder: AllocationFolder
    _: KW_ONLY
    poll: SlurmPoll | None
    site_files: Sequence[CardFiles] = ()
    conf: GresConf

    def __post_init__(self) -> None:
        self._ends: dict[str, int] = {}
        self._left_behind: dict[str, tuple[int, int]] = {}

    def look(self, since_ms: int, now_ms: int, cards: Sequence[CardKey]) -> ReaderLook:
        """Return the allocations within (since_ms, now_ms], Unix ms; used cards without a known job are unknown."""
        table = CardTable(cards)
        answer = None if self.poll is None else self.poll.answer()
        folder = self.folder.look(since_ms, now_ms)
        self.conf.refresh(table, None if answer is None else answer.listed)
        gathered = _Gathered()
        self._read_files(gathered, folder, since_ms, now_ms)
        if answer is not None:
            if answer.reason is None:
                self._check_files(gathered, answer)
            else:
                gathered.troubles.append(answer.reason)
            # The jobs of stale files, which the last poll did not contain, have ended.
            for name, (began_ms, until_ms) in self._left_behind.items():
                each = gathered.files.get(name)
                if each is not None and each.until_ms is None and each.since_ms == began_ms:
                    gathered.files[name] = replace(each, until_ms=until_ms)
                    gathered.notes.append(f"{name} was left behind: Slurm's job {each.id} has ended")
        node = None if answer is None else answer.node
        allocations = self._allocations(gathered, answer, table, node)
        unknown = self._unknown(answer, allocations, table, node)
        return ReaderLook(
            allocations=tuple(each for each in allocations if each.until_ms is None or each.until_ms > since_ms),
            reason=summarize(gathered.troubles),
            unknown_cards=unknown,
            notes=tuple(gathered.notes),
        )

    def close(self) -> None:
        """Stop polling."""
        if self.poll is not None:
            self.poll.close()

    def _read_files(self, gathered: _Gathered, look: FolderLook, since_ms: int, now_ms: int) -> None:
        self._remember_ends(each for name, each in look.allocations.items() if name.startswith(PREFIX))
        gathered.files, gathered.troubles = look.open_files(lambda name: name.startswith(PREFIX), since_ms, now_ms)
        readable = 0
        for folder in self.site_files:
            jobs, reason = folder.look(now_ms)
            if reason is not None:
                gathered.troubles.append(reason)
            readable += reason is None
            self._remember_ends(jobs)
            _add_jobs(gathered.files, jobs)
        is_needed = self.poll is None and not readable
        if look.reason is not None and (look.is_there or is_needed):
            gathered.troubles.append(look.reason)

    def _check_files(self, gathered: _Gathered, answer: PollAnswer) -> None:
        """Find stale files, whose jobs have ended, and add notes where Slurm and the hooks differ."""
        before, self._left_behind = self._left_behind, {}
        for name, each in gathered.files.items():
            if each.until_ms is not None or each.source != SLURM:
                continue
            job = answer.jobs.get(each.id)
            if job is not None and job.until_ms is None:
                if _is_other(each, job):
                    gathered.notes.append(f"{name} has other cards than Slurm reports")
            elif name in before and before[name][0] == each.since_ms:
                self._left_behind[name] = before[name]
            elif answer.at_ms > each.since_ms + _SLACK_MS:
                ended_ms = answer.at_ms if job is None or job.until_ms is None else job.until_ms
                self._left_behind[name] = each.since_ms, max(ended_ms, each.since_ms)
        if self.folder.path.is_dir():
            ids = {each.id for each in gathered.files.values()}
            silent = [
                job.id
                for job in answer.jobs.values()
                if job.until_ms is None
                and job.gres.places
                and job.id not in ids
                and answer.at_ms > job.since_ms + _SLACK_MS
                and not self._has_ended(job, answer)
            ]
            if silent:
                gathered.notes.append(f"the hooks are silent: no file of job {few(silent)} in {self.folder.path}")
        if answer.unclear:
            gathered.notes.append(f"Slurm's output does not show which GPUs job {few(answer.unclear)} has")

    def _remember_ends(self, jobs: Iterable[FileAllocation]) -> None:
        """Store the ends of jobs by files, so that an older poll does not reopen them."""
        for each in jobs:
            if each.until_ms is not None:
                self._ends[each.id] = each.until_ms
        for job in list(self._ends)[: max(0, len(self._ends) - _MOST_ENDS)]:
            del self._ends[job]

    def _allocations(
        self, gathered: _Gathered, answer: PollAnswer | None, table: CardTable, node: str | None
    ) -> list[Allocation]:
        jobs = {} if answer is None else answer.jobs
        files = {name: _with_job(each, jobs.get(each.id)) for name, each in gathered.files.items()}
        ids = {each.id for each in files.values()}
        for job in jobs.values():
            if job.gres.places and job.id not in ids and not self._has_ended(job, answer):
                cards = tuple(CardName("gres", place) for place in sorted(job.gres.places))
                listed = FileAllocation(
                    source=SLURM, id=job.id, cards=cards, since_ms=job.since_ms, until_ms=job.until_ms
                )
                files[f"job {job.id}"] = _with_job(listed, job)
        return list(find_cards(files, self.conf, table, gathered.troubles, node))

    def _has_ended(self, job: SlurmJob, answer: PollAnswer | None) -> bool:
        """Return whether a file ended the job after the poll, or up to 10 s before it."""
        ended_ms = self._ends.get(job.id)
        return ended_ms is not None and answer is not None and answer.at_ms < ended_ms + _SLACK_MS

    def _unknown(
        self, answer: PollAnswer | None, allocations: Sequence[Allocation], table: CardTable, node: str | None
    ) -> frozenset[str]:
        """Return UUIDs of cards used without a known job; every card without a job if Slurm reports no gres index."""
        if answer is None or not (answer.unexplained or answer.unplaced):
            return frozenset()
        names = [CardName("gres", place) for place in sorted(answer.unexplained)]
        uuids, missing = self.conf.find(table, names, node)
        allocated = frozenset(uuid for each in allocations if each.until_ms is None for uuid in each.cards)
        return (table.uuids if missing is not None or answer.unplaced else uuids) - allocated


def _add_jobs(files: dict[str, FileAllocation], jobs: Iterable[FileAllocation]) -> None:
    """Add jobs from per-card files, one entry per job with all its cards, unless a hook file has the job."""
    ids = {each.id for each in files.values()}
    for each in jobs:
        if each.id in ids:
            continue
        key = f"job {each.id}"
        other = files.get(key)
        if other is None:
            files[key] = each
        else:
            files[key] = replace(join(other, each), uid=each.uid if other.uid is None else other.uid)


def _is_other(file: FileAllocation, job: SlurmJob) -> bool:
    """Return whether a file and Slurm name different cards; false unless both use only gres indices."""
    places = {name.value for name in file.cards if name.kind == "gres"}
    return len(places) == len(file.cards) and job.gres.is_clear and bool(job.gres.places) and places != job.gres.places


def _with_job(file: FileAllocation, job: SlurmJob | None) -> FileAllocation:
    """Return a file's allocation, completed with Slurm's user, kind, job name and workload of the job."""
    if job is None:
        return file
    work = file.workload
    return replace(
        file,
        uid=job.uid if file.uid is None else file.uid,
        owner=file.owner or job.user,
        kind=file.kind or job.gres.kind,
        job_name=file.job_name or job.name,
        workload=Work(work.kind or job.workload.kind, work.model or job.workload.model),
    )


def openers(folder: AllocationFolder, settings: SlurmSettings) -> tuple[Opener, Opener]:
    """Return the openers of the sources ``files`` and ``slurm``, which share one folder.

    Files named ``slurm-…`` belong to the Slurm reader once it is open, else to the files reader.
    """
    conf = GresConf(node=settings.node, procfs=settings.procfs)
    is_open: list[bool] = []

    def detect_slurm() -> str | None:
        node = detect_node(settings.node, procfs=settings.procfs)
        folders = [str(path) for path in (settings.gpustat, settings.job_mapping) if path is not None and path.is_dir()]
        return ", ".join([*([] if node is None else [node]), *folders]) or None

    def open_slurm() -> SlurmReader:
        is_open.append(True)
        site_files = [gpustat(settings.gpustat)] if settings.gpustat.is_dir() else []
        site_files += [] if settings.job_mapping is None else [job_mapping(settings.job_mapping)]
        poll = None
        if settings.poll_seconds and shutil.which("scontrol") and shutil.which("squeue"):
            listing = GresListing(GresConf(node=settings.node), settings.procfs).look
            poll = SlurmPoll(node=settings.node, period_seconds=settings.poll_seconds, listing=listing)
            poll.answer()  # starts polling, so that an answer exists by the first tick
        return SlurmReader(folder, poll=poll, site_files=site_files, conf=conf)

    files = Opener(
        name=FILES,
        detect=lambda: f"the folder {folder.path}" if folder.path.is_dir() else None,
        open=lambda: FilesReader(folder, without=lambda name: bool(is_open) and name.startswith(PREFIX), conf=conf),
    )
    return files, Opener(name=SLURM, detect=detect_slurm, open=open_slurm)
