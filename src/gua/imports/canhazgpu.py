"""Conversion of canhazgpu's history to ticks: reservations of cards by user and time, without use of the cards.

The history has one JSON object per line, as ``redis-cli --raw ZRANGE canhazgpu:usage_history_sorted 0 -1`` prints it.
The reserved time of each card becomes ticks that end where a reservation begins or ends and at each full hour.
"""

import hashlib
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from gua.core.allocation import Allocation, AllocationLook, AllocationMatcher, SourceHealth
from gua.core.errors import DataError
from gua.core.moments import HOUR_MS
from gua.core.plaintext import storable
from gua.core.tick import AllocationSourceReading, CardReading, Origin, Tick
from gua.core.untrusted import is_within, parsed_json, require
from gua.imports.recorded_file import read_errors_converted
from gua.imports.values import Timestamps

SOURCE: Final = "canhazgpu"
_KINDS: Final = ("run", "manual")
_MOST_BYTES: Final = 256 * 2**20
_MOST_CARDS: Final = 1024
_LONGEST_MS: Final = 366 * 24 * HOUR_MS
_LONGEST_NAME: Final = 256
_HOW: Final = "give what redis-cli --raw ZRANGE canhazgpu:usage_history_sorted 0 -1 prints"


@dataclass(frozen=True, slots=True)
class ReservedCard:
    """One record of the history: user, card index, start and end (Unix ms), and kind (run or manual)."""

    user: str
    gpu: int
    since_ms: int
    until_ms: int
    kind: str

    @property
    def id(self) -> str:
        """Return an id of 12 hex digits that all records of one reservation share: they differ only in the card."""
        return hashlib.sha256(f"{self.user}\0{self.since_ms}\0{self.kind}".encode()).hexdigest()[:12]


@dataclass(slots=True)
class ReservedHistory:
    """Records of several files, each once. ``repeated`` counts duplicates, ``cut`` truncated last lines."""

    records: list[ReservedCard] = field(default_factory=list)
    repeated: int = 0
    cut: int = 0

    @property
    def cards(self) -> list[int]:
        """Return the sorted indices of all cards with a reservation."""
        return sorted({record.gpu for record in self.records})

    def ticks(self, origin: Origin, uuids: Sequence[str]) -> Iterator[Tick]:
        """Yield the ticks of the reserved time, oldest first; ``uuids`` are the cards' UUIDs by index.

        Processes and utilization are unknown.
        """
        cards: defaultdict[int, list[CardReading]] = defaultdict(list)
        for gpu in self.cards:
            for ts_ms, card in _card_ticks(uuids[gpu], gpu, [one for one in self.records if one.gpu == gpu]):
                cards[ts_ms].append(card)
        for ts_ms in sorted(cards):
            longest_ms = max(card.duration_ms for card in cards[ts_ms])
            source = AllocationSourceReading(source=SOURCE, duration_ms=longest_ms)
            yield Tick(ts_ms=ts_ms, origin=origin, cards=tuple(cards[ts_ms]), allocation_sources=(source,))


def read(paths: Sequence[Path]) -> ReservedHistory:
    """Return the records of all files, ordered by start; ``-`` is standard input.

    Raises UsageError for a missing file, UnavailableError for an unreadable one, DataError with file and line for
    invalid content, or for a file without records.
    """
    history = ReservedHistory()
    known: set[ReservedCard] = set()
    for path in paths:
        before = len(known) + history.repeated
        for record in _records(path, history):
            history.repeated += record in known
            known.add(record)
        if len(known) + history.repeated == before:
            raise DataError(f"{path} has no record: {_HOW}")
    history.records = sorted(known, key=lambda one: (one.since_ms, one.gpu, one.user))
    return history


def _card_ticks(uuid: str, index: int, records: Sequence[ReservedCard]) -> Iterator[tuple[int, CardReading]]:
    """Yield end (Unix ms) and reading of a card's ticks; simultaneous reservations get equal parts."""
    matcher = AllocationMatcher()
    bounds = {bound for record in records for bound in (record.since_ms, record.until_ms)}
    for record in records:
        bounds |= set(range(record.since_ms // HOUR_MS * HOUR_MS + HOUR_MS, record.until_ms, HOUR_MS))
    waiting = sorted(records, key=lambda record: record.since_ms, reverse=True)
    there: list[ReservedCard] = []
    for start_ms, end_ms in pairwise(sorted(bounds)):
        there = [record for record in there if record.until_ms > start_ms]
        while waiting and waiting[-1].since_ms <= start_ms:
            there.append(waiting.pop())
        if there:
            allocations = tuple(
                Allocation(
                    source=SOURCE,
                    id=one.id,
                    cards=frozenset((uuid,)),
                    since_ms=one.since_ms,
                    until_ms=one.until_ms,
                    owner=one.user,
                    kind=one.kind,
                )
                for one in there
            )
            look = AllocationLook(allocations=allocations, sources=(SourceHealth(source=SOURCE),))
            length_ms = end_ms - start_ms
            reading = CardReading(uuid=uuid, duration_ms=length_ms, gpu_time_ms=length_ms, index=index)
            matcher.allocate(reading, look, ts_ms=end_ms)
            yield end_ms, reading


def _records(path: Path, history: ReservedHistory) -> Iterator[ReservedCard]:
    text = _text(path)
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            fields = parsed_json(line)
            require(isinstance(fields, dict), "the line is not a JSON object")
            user, gpu, kind = fields.get("user"), fields.get("gpu_id"), fields.get("reservation_type")
            require(isinstance(user, str) and user.strip(), "user is not a name")
            require(is_within(0, _MOST_CARDS - 1)(gpu), "gpu_id is not the index of a GPU")
            require(kind in _KINDS, "reservation_type is neither run nor manual")
            since_ms, until_ms = _moment(fields, "start_time"), _moment(fields, "end_time")
            require(since_ms < until_ms, "end_time is not after start_time")
            require(until_ms - since_ms <= _LONGEST_MS, "it is longer than a year")
            yield ReservedCard(storable(str(user), _LONGEST_NAME), gpu, since_ms, until_ms, kind)
        except ValueError as error:
            if number == len(lines):  # no newline at the end: truncated
                history.cut += 1
                continue
            raise DataError(f"{path}:{number}: {error}: {_HOW}") from None


def _text(path: Path) -> str:
    with read_errors_converted(path, _HOW):
        if str(path) == "-":
            raw = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with path.open("rb") as file:
                raw = file.read(_MOST_BYTES + 1)
    if len(raw) > _MOST_BYTES:
        raise DataError(f"{path} is larger than {_MOST_BYTES // 2**20} MiB: {_HOW}")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text: {_HOW}") from None


def _moment(fields: dict[str, Any], name: str) -> int:
    stamps = Timestamps(UTC)
    with suppress(ValueError, TypeError):
        moment_ms = stamps.parse(fields.get(name))
        if not stamps.without_offset:
            return moment_ms
    raise ValueError(f"{name} is no time: RFC 3339 with an offset, or Unix seconds")
