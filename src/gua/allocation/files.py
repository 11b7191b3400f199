"""Allocations from a folder of JSON files, one each, that trusted programs write: docs/allocation.md."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from gua.allocation.card_names import CardName, CardTable, plain_pci
from gua.allocation.slurm_conf import GresConf
from gua.allocation.sources import ReaderLook
from gua.allocation.trusted_files import TrustedFolder
from gua.core.allocation import Allocation, CardKey
from gua.core.plaintext import storable
from gua.core.untrusted import is_like, is_number, is_within, list_in, require
from gua.core.workloads import NO_WORK, Work, declared, declared_in

# Not in /run/gua: systemd empties that directory whenever the agent stops.
DEFAULT_FOLDER: Final = Path("/run/gua-allocations")
FILES: Final = "files"
SLURM: Final = "slurm"
MOST_FILES: Final = 4096
_PLANNED_MS: Final = 60_000  # tolerance: the job's start and the file's time may come from different clocks
MOST_CARDS: Final = 1024
_MOST_ID: Final = 128
_is_source: Final = is_like(r"[a-z0-9_-]{1,32}")
_is_uid: Final = is_within(0, 2**32 - 2)
_is_number_of_card: Final = is_within(0, 2**16)
_UUID: Final = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]{1,120}")
# Unix seconds from 2001 on; a value in ms would be the year 33658 and is refused.
_LEAST_SECONDS: Final = 1_000_000_000
_MOST_SECONDS: Final = 100_000_000_000
_TEXTS: Final = {"owner": 256, "kind": 32, "job_name": 128, "node": 256}
_SHARED: Final = ("source", "id", "since_ms", "until_ms", "owner", "uid", "kind", "job_name")
_WORKLOAD: Final = {"workload_kind": "kind", "workload_model": "model"}


@dataclass(frozen=True, kw_only=True, slots=True)
class FileAllocation:
    """Allocation in one file, with cards by the names used there. Times are Unix ms.

    ``node`` is this host's name in the scheduler that numbers the cards. ``is_planned``: the file was written before
    the allocation begins. Any other start in the future means that the clock was set back.
    """

    source: str
    id: str
    cards: tuple[CardName, ...]
    since_ms: int
    until_ms: int | None = None
    owner: str | None = None
    uid: int | None = None
    kind: str | None = None
    job_name: str | None = None
    node: str | None = None
    workload: Work = NO_WORK
    is_planned: bool = False


def parse_file(content: bytes, written_ms: int) -> FileAllocation:
    """Return a file's allocation; ``written_ms`` is its modification time (Unix ms). Raises ValueError if invalid."""
    try:
        fields: Any = json.loads(content.decode(errors="replace"))
    except (ValueError, RecursionError):
        raise ValueError("no JSON, or torn") from None
    require(isinstance(fields, dict), "no JSON object")
    source, identity, uid = fields.get("source"), fields.get("id"), fields.get("uid")
    require(_is_source(source), "source is not 1 to 32 of a-z, 0-9, _ and -")
    if type(identity) is int:
        identity = str(identity)
    is_id = isinstance(identity, str) and identity.isprintable() and 0 < len(identity) <= _MOST_ID
    require(is_id, "id is not 1 to 128 printable characters")
    require(uid is None or _is_uid(uid), "uid is no user id")
    texts = {name: _text(fields.get(name), name, most) for name, most in _TEXTS.items()}
    since_ms = _moment(fields.get("since"), "since")
    cards = list_in(fields.get("cards"))
    require(cards, "cards is no list, or empty")
    require(len(cards) <= MOST_CARDS, f"more than {MOST_CARDS} cards")
    # The kind and model of the work that the file declares, else those in its job's name.
    own, named = (
        declared({key: fields.get(name) for name, key in _WORKLOAD.items()}),
        declared_in(fields.get("job_name")),
    )
    return FileAllocation(
        source=source,
        id=identity,
        cards=tuple(dict.fromkeys(map(_card, cards))),
        since_ms=since_ms,
        until_ms=None if fields.get("until") is None else _moment(fields["until"], "until"),
        uid=uid,
        is_planned=since_ms > written_ms + _PLANNED_MS,
        workload=Work(own.kind or named.kind, own.model or named.model),
        **texts,
    )


def _text(value: object, name: str, most: int) -> str | None:
    require(value is None or isinstance(value, str), f"{name} is no text")
    return storable(str(value), most) if value else None


def _moment(value: object, name: str) -> int:
    """Return Unix ms from Unix seconds or ISO 8601 text with an offset. Raises ValueError for anything else."""
    seconds: float | None = None
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            seconds = None if moment.tzinfo is None else moment.timestamp()
        except (ValueError, OverflowError):
            seconds = None
    elif isinstance(value, (int, float)) and is_number(value):
        seconds = value
    if seconds is None or not _LEAST_SECONDS <= seconds < _MOST_SECONDS:
        raise ValueError(f"{name} is no time in Unix seconds")
    return round(seconds * 1000)


def _card(value: object) -> CardName:
    if isinstance(value, str) and _UUID.fullmatch(value):
        return CardName("uuid", value)
    if isinstance(value, int) and _is_number_of_card(value):
        return CardName("index", value)
    if isinstance(value, dict):
        instance = value.get("instance")
        kinds = [kind for kind in ("index", "minor", "gres", "pci") if kind in value]
        if (
            len(kinds) == 1
            and set(value) <= {*kinds, "instance"}
            and (instance is None or _is_number_of_card(instance))
        ):
            [kind] = kinds
            name = value[kind]
            if kind == "pci":
                name = plain_pci(name) if isinstance(name, str) else None
            elif not _is_number_of_card(name):
                name = None
            if name is not None:
                return CardName(kind, name, instance)
    raise ValueError('a card is not "GPU-…", "MIG-…", an index, or one of {"minor": n}, {"pci": "…"}, {"gres": n}')


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderLook:
    """Allocations by file name. ``bad`` are errors by file name; ``reason`` is why the folder could not be read."""

    allocations: dict[str, FileAllocation] = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)
    reason: str | None = None
    is_there: bool = True

    def open_files(
        self, selects: Callable[[str], bool], since_ms: int, now_ms: int
    ) -> tuple[dict[str, FileAllocation], list[str]]:
        """Return the selected files' allocations within (since_ms, now_ms], Unix ms, merged; and the files' errors."""
        own = {
            name: each
            for name, each in self.allocations.items()
            if selects(name) and not (each.is_planned and each.since_ms > now_ms)
        }
        files, wrong = merge(own, since_ms)
        bad = [f"{name}: {why}" for name, why in sorted(self.bad.items()) if selects(name)]
        return files, bad if wrong is None else [*bad, wrong]


class AllocationFolder:
    """The folder of allocation files, read once per tick for all readers. For one thread."""

    def __init__(self, path: Path = DEFAULT_FOLDER) -> None:
        self.path = path
        self._files = TrustedFolder(path, re.compile(r"[^.].*\.json").fullmatch, parse_file, most_files=MOST_FILES)
        self._allocations: dict[str, FileAllocation] = {}
        self._last_ms: int | None = None
        self._period: tuple[int, int] | None = None
        self._look = FolderLook()

    def look(self, since_ms: int, now_ms: int) -> FolderLook:
        """Return the allocations of all files, including ended ones; times are Unix ms.

        The allocation of a removed file ends with it: at the folder's last change, or at the last look if no change is
        later. Its own end counts if that is earlier.
        """
        if self._period != (since_ms, now_ms):
            self._period = since_ms, now_ms
            self._look = self._read(now_ms)
            self._last_ms = now_ms
        return self._look

    def _read(self, now_ms: int) -> FolderLook:
        before, self._allocations = self._allocations, {}
        try:
            files = self._files.read()
        except OSError as error:
            is_there = not isinstance(error, FileNotFoundError)
            return FolderLook(reason=f"{self.path}: {error.strerror}", is_there=is_there)
        self._allocations = {name: file.content for name, file in files.items() if file.content is not None}
        gone = {name: each for name, each in before.items() if name not in files}
        keys = {(each.source, each.id) for each in self._allocations.values()}
        last_ms, ended_ms = now_ms if self._last_ms is None else self._last_ms, self._files.changed_ms
        if not last_ms < ended_ms <= now_ms:
            ended_ms = last_ms
        return FolderLook(
            allocations=self._allocations
            | {
                name: replace(each, until_ms=ended_ms if each.until_ms is None else min(each.until_ms, ended_ms))
                for name, each in gone.items()
                if (each.source, each.id) not in keys
            },
            bad={name: file.bad for name, file in files.items() if file.bad is not None},
        )


def merge(files: dict[str, FileAllocation], since_ms: int) -> tuple[dict[str, FileAllocation], str | None]:
    """Return the allocations open after ``since_ms`` (Unix ms), each (source, id) once, and an error for duplicates.

    Two files with one (source, id) are joined, including the time between, unless neither has an end: that is an error.
    """
    first: dict[tuple[str, str], str] = {}
    result: dict[str, FileAllocation] = {}
    wrong: str | None = None
    for name in sorted(files):
        each = files[name]
        if each.until_ms is not None and each.until_ms <= since_ms:
            continue
        other = first.setdefault((each.source, each.id), name)
        if other == name:
            result[name] = each
            continue
        before = result[other]
        if before.until_ms is None and each.until_ms is None:
            wrong = wrong or f"{other} and {name} contain the same allocation"
            continue
        result[other] = join(each, before) if each.until_ms is None else join(before, each)
    return result, wrong


def join(one: FileAllocation, other: FileAllocation) -> FileAllocation:
    """Return two parts of an allocation as one: all cards, earliest start, latest end, and other fields of ``one``."""
    return replace(
        one,
        cards=tuple(dict.fromkeys((*one.cards, *other.cards))),
        since_ms=min(one.since_ms, other.since_ms),
        until_ms=None if one.until_ms is None or other.until_ms is None else max(one.until_ms, other.until_ms),
    )


def find_cards(
    files: dict[str, FileAllocation],
    conf: GresConf,
    table: CardTable,
    troubles: list[str],
    node: str | None = None,
) -> Iterator[Allocation]:
    """Yield file allocations, by file name in ``files``, with the host's UUIDs; append unknown cards to ``troubles``.

    ``node`` is this host's name in Slurm for files without one. Unknown cards of ended Slurm jobs are ignored.
    """
    for name, each in files.items():
        cards, missing = conf.find(table, each.cards, each.node or node)
        if missing is not None and (each.until_ms is None or each.source != SLURM):
            troubles.append(f"{name}: {missing}")
        if cards:
            yield Allocation(
                **{field: getattr(each, field) for field in _SHARED},
                cards=cards,
                slurm_job_id=each.id if each.source == SLURM else None,
                workload_kind=each.workload.kind,
                workload_model=each.workload.model,
            )


@dataclass(eq=False)
class FilesReader:
    """Reader of the folder's files, except those for whose names ``without`` returns true: another reader's."""

    name = FILES

    folder: AllocationFolder
    _: KW_ONLY
    without: Callable[[str], bool] = lambda _: False
    conf: GresConf

    def look(self, since_ms: int, now_ms: int, cards: Sequence[CardKey]) -> ReaderLook:
        """Return the allocations. A bad file or unknown card makes the source fail, but other files still count."""
        look = self.folder.look(since_ms, now_ms)
        if look.reason is not None:
            return ReaderLook(reason=look.reason)
        table = CardTable(cards)
        self.conf.refresh(table)
        files, troubles = look.open_files(lambda name: not self.without(name), since_ms, now_ms)
        return ReaderLook(allocations=tuple(find_cards(files, self.conf, table, troubles)), reason=summarize(troubles))

    def close(self) -> None:
        """Do nothing: this reader has no thread."""


def summarize(troubles: Sequence[str]) -> str | None:
    """Return the first error and the number of others in one text; ``None`` without errors."""
    if len(troubles) < 2:
        return troubles[0] if troubles else None
    return f"{troubles[0]} (and {len(troubles) - 1} more)"
