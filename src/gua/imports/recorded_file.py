"""Recorded files as text lines, and merging of the rows of several files by time."""

import heapq
import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from gua.core.errors import DataError, UnavailableError, UsageError
from gua.core.tick import CardReading, Origin, Tick

_LINE_BYTES = 2**20
_PROBE_BYTES = 2**16
_NAMED = 5
_FOREIGN = {
    b"\x1f\x8b": "is compressed: unpack it with gunzip first",
    b"PK\x03\x04": "is a zip archive: unpack it first",
    b"\xff\xfe": "is UTF-16 text: convert it with iconv -f UTF-16 -t UTF-8 first",
    b"\xfe\xff": "is UTF-16 text: convert it with iconv -f UTF-16 -t UTF-8 first",
}


@dataclass(slots=True)
class RecordedFile:
    """A file, read up to its ``size`` [bytes] when first opened, so that every pass reads the same rows.

    ``number`` is the last line read. ``left_out`` describes the first five of ``left_out_lines`` skipped lines.
    """

    path: Path
    size: int
    json_lines: bool
    number: int = 0
    left_out_lines: int = 0
    left_out: list[str] = field(default_factory=list)

    @property
    def where(self) -> str:
        """Return ``file:line`` of the last line read."""
        return f"{self.path}:{self.number}"

    def leave_out(self, why: str) -> None:
        """Record that the last line read is skipped, with the reason."""
        self.left_out_lines += 1
        if len(self.left_out) < _NAMED:
            self.left_out.append(f"{self.where}: {why}")

    def lines(self) -> Iterator[str]:
        """Yield the file's lines with their newlines; only the last line may lack it.

        Raises DataError for text that is not UTF-8, a line above 1 MiB or a file that became shorter. Raises
        UnavailableError if the file cannot be read.
        """
        self.number = self.left_out_lines = 0
        self.left_out.clear()
        left = self.size
        try:
            with self.path.open("rb") as file:
                if os.fstat(file.fileno()).st_size < self.size:
                    msg = f"{self.path} became shorter while it was read: import a copy that nobody writes to"
                    raise DataError(msg)
                while left > 0 and (raw := file.readline(_LINE_BYTES)):
                    raw = raw[:left]
                    left -= len(raw)
                    self.number += 1
                    yield self._text(raw, last=left <= 0)
        except OSError as error:
            msg = f"{self.path} cannot be read: {error.strerror or error}: check the file and its permissions"
            raise UnavailableError(msg) from None

    def _text(self, raw: bytes, *, last: bool) -> str:
        if len(raw) == _LINE_BYTES and not raw.endswith(b"\n"):
            raise DataError(f"{self.where}: the line is longer than 1 MiB: this is no recording of nvidia-smi")
        try:
            return raw.decode("utf-8-sig" if self.number == 1 else "utf-8")
        except UnicodeDecodeError:
            if last and not raw.endswith(b"\n"):  # truncated within a character
                return raw.decode("utf-8", errors="replace")
            msg = f"{self.where}: the line is not UTF-8 text: correct the file or convert it with iconv"
            raise DataError(msg) from None


@contextmanager
def read_errors_converted(path: Path, remedy: str) -> Iterator[None]:
    """Run the body; raise UsageError with the remedy if the file is missing, UnavailableError if it is unreadable."""
    try:
        yield
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist: {remedy}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnavailableError(f"{path} cannot be read: {reason}: check the path and its permissions") from None


def open_source(path: Path) -> RecordedFile:
    """Return the file, with its current size and whether its first character is that of JSON Lines.

    Raises UsageError if it does not exist or is not a regular file, and UnavailableError if it cannot be read. Raises
    DataError if it is empty or neither CSV nor JSON Lines.
    """
    with read_errors_converted(path, "give the path of a recorded file"):
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{path} is not a regular file: it is read twice, so write the recording to a file first")
        with path.open("rb") as file:
            head = file.read(_PROBE_BYTES)
    reason = next((why for start, why in _FOREIGN.items() if head.startswith(start)), None)
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if reason is None and b"\0" in head:
        reason = "is binary, neither CSV nor JSON Lines: give the output of nvidia-smi --query-gpu=… --format=csv"
    elif reason is None and not text:
        reason = "is empty: give the output of nvidia-smi --query-gpu=… --format=csv"
    elif reason is None and text[:1] == b"<":
        reason = "is XML, neither CSV nor JSON Lines: record with nvidia-smi --query-gpu=… --format=csv"
    elif reason is None and text[:1] == b"[" and text[1:].lstrip()[:1] == b"{":
        reason = "is one JSON array: write one object a line, for example with jq -c '.[]'"
    if reason is not None:
        raise DataError(f"{path} {reason}")
    return RecordedFile(path=path, size=status.st_size, json_lines=text[:1] == b"{")


R = TypeVar("R", bound=tuple[Any, ...])  # first element: time (Unix ms)
Read = Callable[[RecordedFile], Iterator[R]]


def merged(first: Iterable[tuple[int, RecordedFile]], read: Read[R]) -> Iterator[R]:
    """Return the rows of all files merged by time; ``first`` has each file with the time of its first row (Unix ms).

    Rows of one file stay in its order. A file is opened when its first row is reached, so few are open at a time.
    """

    def timed(first_ms: int, source: RecordedFile) -> Iterator[tuple[int, R | None]]:
        yield first_ms, None
        for row in read(source):
            yield row[0], row

    files = sorted(first, key=lambda file: (file[0], str(file[1].path)))
    if len(files) == 1:
        return read(files[0][1])
    rows = heapq.merge(*(timed(first_ms, source) for first_ms, source in files), key=itemgetter(0))
    return (row for _, row in rows if row is not None)


def make_ticks(readings: Iterable[tuple[int, str, int, CardReading]], origin: Origin) -> Iterator[Tick]:
    """Yield one tick for all readings with the same time, host and interval, by time.

    ``readings`` are tuples of time (Unix ms), host, interval [ms] and reading, ordered by time. Each tick has the
    ``origin`` with that host and interval.
    """
    for ts_ms, moment in groupby(readings, key=itemgetter(0)):
        cards: defaultdict[tuple[str, int], list[CardReading]] = defaultdict(list)
        for _, host, interval_ms, card in moment:
            cards[host, interval_ms].append(card)
        for (host, interval_ms), readings_then in cards.items():
            own = replace(origin, host=host, interval_ms=interval_ms)
            yield Tick(ts_ms=ts_ms, origin=own, cards=tuple(readings_then))
