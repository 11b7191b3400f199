"""Rows of many requests, to be landed at once: ticks as they come, of what they are about all of them together."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import ClassVar, Final

from gua.core.ports import SpooledTick
from gua.state.compression import content
from gua.store.connection import QueryError
from gua.store.requests import columns
from gua.store.requests.form import FilledTick, Form, Seen, form_of
from gua.store.requests.reading import NotPlainError
from gua.store.requests.subjects import RequestSender
from gua.store.table_rows import TickColumn

_DAY_MS: Final = 86_400_000
MOST_KEPT: Final = 4 * 2**20
"""Bytes of requests whose forms are kept, which take some three times as many: 30 forms of a host of 80 processes."""
MOST_BYTES: Final = 2 * 2**20
"""A larger request, one of some 1,000 processes, goes as points: its form is not kept."""
MOST_SIZE: Final = 32 * 2**20
"""Bytes of rows that are landed at once: more than a batch of a host of 80 processes makes."""
_moment: Final = Struct("<q").pack
_moments: Final = Struct("<qq").pack
_seen: Final = Struct("<qqQqd").pack
_interval: Final = Struct("<I").pack


@dataclass(frozen=True, slots=True)
class TableBytes:
    """Rows of one table, one after the other."""

    format: ClassVar = "RowBinary"
    table: str
    columns: Sequence[TickColumn]
    rows: Sequence[bytes]

    def write(self, path: Path) -> None:
        """Write the rows to a file."""
        with path.open("wb") as file:
            file.writelines(self.rows)


class Forms:
    """Forms of requests that were met, by the length of these, the newest last."""

    def __init__(self) -> None:
        """Know none yet."""
        self._forms: OrderedDict[tuple[int, int], Form] = OrderedDict()
        self._made = self._bytes = 0

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._forms)

    def filled(self, raw: bytes, now_ms: int) -> tuple[Form, FilledTick]:
        """Return the form of a request, and what it says. Raises NotPlainError where views would have to tell."""
        for key, form in reversed(self._forms.items()):
            if key[0] == len(raw) and (filled := form.filled(raw, now_ms)) is not None:
                self._forms.move_to_end(key)
                return form, filled
        form = form_of(raw)
        filled = form.filled(raw, now_ms)
        if filled is None:
            raise NotPlainError
        self._made += 1
        self._forms[len(raw), self._made] = form
        self._bytes += len(raw)
        while self._bytes > MOST_KEPT and len(self._forms) > 1:
            (length, _), _ = self._forms.popitem(last=False)
            self._bytes -= length
        return form, filled


class RequestRows:
    """Rows of requests up to now, to be landed at once."""

    def __init__(self, forms: Forms, now_ms: int) -> None:
        """Make none yet; ``now_ms`` is the Unix time: what is ahead of it is for the views to judge."""
        self.size = 0
        self._forms = forms
        self.now_ms = now_ms
        self._rows: dict[str, list[bytes]] = {}
        self._seen: dict[tuple[bytes, bytes], tuple[int, int, int, tuple[int, float]]] = {}
        self._newest: dict[tuple[bytes, bytes], tuple[int, RequestSender, bytes]] = {}
        self._agents: dict[tuple[bytes, bytes, bytes, int], tuple[int, tuple[int, bytes, bytes, int]]] = {}

    def add(self, raw: bytes) -> bool:
        """Take a request; return False and take nothing of one that only its points tell in full."""
        if len(raw) > MOST_BYTES:
            return False
        try:
            form, filled = self._forms.filled(raw, self.now_ms)
        except NotPlainError:
            return False
        for table, begin, end in form.cuts:
            self._rows.setdefault(table, []).append(filled.rows[begin:end])
        self.size += len(filled.rows)
        for (gpu, info), seen in zip(form.cards, filled.seen, strict=True):
            self._see((form.sender.host, gpu), seen, filled.ts_ms)
            self._describe(gpu, info, form.sender, filled.ts_ms)
        if form.hears_agent:
            self._hear(form.sender, filled.ts_ms)
        return True

    def parts(self) -> Iterator[TableBytes]:
        """Yield the rows of each table that has some; cards last, so that none is there without those that held it."""
        card = columns.CARD.table
        for form in columns.FORMS.values():
            if form.table != card and form.table in self._rows:
                yield TableBytes(form.table, form.columns, self._rows[form.table])
        if self._newest:
            yield TableBytes("card_info", columns.INFO, [*self._info_rows()])
            yield TableBytes("card_seen", columns.SEEN, [*self._seen_rows()])
        if self._agents:
            yield TableBytes("agents", columns.AGENT, [*self._agent_rows()])
        if card in self._rows:
            yield TableBytes(card, columns.CARD.columns, self._rows[card])

    def _see(self, key: tuple[bytes, bytes], seen: Seen, ts_ms: int) -> None:
        first_ms, last_ms, longest_ms, newest = self._seen.get(key, (ts_ms, 0, 0, (0, 0.0)))
        self._seen[key] = (
            min(first_ms, seen.first_ms),
            max(last_ms, ts_ms),
            max(longest_ms, seen.longest_ms),
            max(newest, (ts_ms, seen.share)),
        )

    def _describe(self, gpu: bytes, info: bytes, sender: RequestSender, ts_ms: int) -> None:
        described = self._newest.get((sender.host, gpu))
        if described is None or described[0] <= ts_ms:
            self._newest[sender.host, gpu] = ts_ms, sender, info

    def _hear(self, sender: RequestSender, ts_ms: int) -> None:
        key = sender.host, *sender.agent, ts_ms // _DAY_MS
        newest = ts_ms, sender.version, sender.source, sender.interval_ms
        first_ms, before = self._agents.get(key, (ts_ms, newest))
        self._agents[key] = min(first_ms, ts_ms), max(before, newest)

    def _info_rows(self) -> Iterator[bytes]:
        for (host, gpu), (ts_ms, sender, info) in self._newest.items():
            interval = _interval(sender.interval_ms)
            yield b"".join((_moment(ts_ms), host, columns.text(sender.source), interval, sender.labels, gpu, info))

    def _seen_rows(self) -> Iterator[bytes]:
        for (host, gpu), (first_ms, last_ms, longest_ms, newest) in self._seen.items():
            yield _seen(first_ms, last_ms, longest_ms, *newest) + host + gpu

    def _agent_rows(self) -> Iterator[bytes]:
        for (host, *agent, day), (first_ms, (last_ms, version, source, interval_ms)) in self._agents.items():
            texts = columns.text(version) + columns.text(source) + _interval(interval_ms)
            told = b"".join(map(columns.text, agent))
            yield _moments(first_ms, last_ms) + texts + host + told + _moment(day * _DAY_MS)


def landed_as_rows(
    batch: Sequence[SpooledTick], forms: Forms, insert: Callable[[Iterator[TableBytes]], None]
) -> list[SpooledTick]:
    """Insert the ticks of which rows can be made; return those that are to be landed by their points."""
    others: list[SpooledTick] = []
    taken: list[SpooledTick] = []
    rows = RequestRows(forms, time.time_ns() // 1_000_000)
    for tick in [*batch, None]:
        if taken and (tick is None or rows.size >= MOST_SIZE):
            try:
                insert(rows.parts())
            except QueryError as error:
                if not error.about_data:
                    raise
                others += taken
            rows, taken = RequestRows(forms, rows.now_ms), []
        if tick is not None:
            raw = content(tick.blob, tick.raw_length) if tick.raw_length <= MOST_BYTES else None
            (taken if raw is not None and rows.add(raw) else others).append(tick)
    return others
