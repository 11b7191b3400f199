"""Requests of one form: from one tick to the next of a host mostly times and values differ, and nothing else.

So a request is taken apart once (:mod:`reading`). Of those that have the same bytes but for times and values one call
reads all values, and one writes all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite, nan
from operator import itemgetter
from struct import Struct
from typing import Any, Final, NamedTuple

from gua.core import metrics
from gua.store.requests import columns, subjects
from gua.store.requests.columns import RowForm
from gua.store.requests.reading import VALUE_BYTES, NotPlainError, Point, read
from gua.store.requests.subjects import RequestSender, SubjectRow

_NS_PER_MS: Final = 1_000_000
_MOST_UINT32: Final = 0xFFFF_FFFF
# Of longer spans card_seen is not told.
_MOST_SPAN_MS: Final = 4_294_966_000
_YEAR_2000_MS: Final = 946_684_800_000
# Two moments, the tag of each and that of the value.
_SPAN_WITH_START: Final = 19
_NOT_A_NUMBER, _TS, _FIRST_VALUE = 0, 1, 2

Pick = Callable[[Sequence[Any]], tuple[Any, ...]]


class Seen(NamedTuple):
    """A card in a tick: the start of its span [Unix ms], how long it was at most [ms], its share of a whole GPU."""

    first_ms: int
    longest_ms: int
    share: float


class FilledTick(NamedTuple):
    """What a request says: its time [Unix ms], the bytes of all rows, one table after the other, each card's span."""

    ts_ms: int
    rows: bytes
    seen: list[Seen]


class _Card(NamedTuple):
    """Where the values of a card's duration and GPU time stand, and their spans."""

    duration: int
    gpu_time: int
    spans: tuple[int, int]

    def seen(self, ts_ms: int, spans: Sequence[bytes], values: Sequence[float]) -> Seen:
        """Return the card's span as ``15_sum_to_card_seen.sql`` does of both points. Raises NotPlainError."""
        span = spans[self.spans[0]]
        duration, gpu_time = values[self.duration] * 1000, values[self.gpu_time] * 1000
        if len(span) != _SPAN_WITH_START or span[:9] != spans[self.spans[1]][:9]:
            raise NotPlainError
        if not 0 < duration <= _MOST_SPAN_MS or not 0 <= gpu_time <= _MOST_UINT32:
            raise NotPlainError
        first_ms = _moment_ms(span[1:9])
        span_ms, gpu_time_ms = ts_ms - first_ms, round(gpu_time)
        if span_ms <= 0 or round(duration) != span_ms:
            raise NotPlainError
        return Seen(first_ms, max(span_ms, min(gpu_time_ms, span_ms + 1000)), gpu_time_ms / span_ms)


class Form:
    """What requests of a form have in common. Made by :func:`form_of`."""

    def __init__(
        self, raw: bytes, points: Sequence[Point], of: RequestSender, rows: dict[RowForm, list[SubjectRow]]
    ) -> None:
        """Work out where what stands. Raises NotPlainError where views would have to tell."""
        self.sender = of
        self.hears_agent = any(point.metric is metrics.AGENT_TICK_DURATION for point in points)
        span_of = self._read_points(raw, points)
        self._write_rows(len(points), rows)
        cards = rows[columns.CARD]
        self.cards = [subjects.card(row.info) for row in cards]
        places = [(row.numbers["duration_ms"], row.numbers["gpu_time_ms"]) for row in cards]
        self._cards = [_Card(one, other, (span_of[one], span_of[other])) for one, other in places]

    def _read_points(self, raw: bytes, points: Sequence[Point]) -> list[int]:
        same: list[bytes] = []
        layout = ["<"]
        # A card's span is told from another card's, though they may be alike in this tick.
        spans: dict[tuple[bytes, bytes], int] = {}
        span_of: list[int] = []
        at = 0
        for point in points:
            begin = point.place - len(point.span)
            same.append(raw[at:begin])
            layout.append(f"{begin - at}s{len(point.span)}s{'q' if point.is_integer else 'd'}")
            span_of.append(spans.setdefault((point.span, _first(point.attributes)), len(spans)))
            at = point.place + VALUE_BYTES
        self._same = (*same, raw[at:])
        self._unpack = Struct("".join([*layout, f"{len(raw) - at}s"])).unpack
        self._spans_of_points = _picker(span_of)
        self._different = _picker([span_of.index(number) for number in range(len(spans))])
        self._tags = [_tags(span) for span, _ in spans]
        return span_of

    def _write_rows(self, values: int, rows: dict[RowForm, list[SubjectRow]]) -> None:
        picked: list[int] = []
        layout = ["<"]
        self._texts: list[bytes] = []
        self.cuts: list[tuple[str, int, int]] = []
        end = 0
        for form, of_form in rows.items():
            begin = end
            numbers = len(form.numbers)
            for row in of_form:
                text = subjects.text_of(form.table, row.info, self.sender)
                places = [_NOT_A_NUMBER] * numbers
                for name, number in row.numbers.items():
                    places[form.numbers[name]] = _FIRST_VALUE + number
                picked += [_TS, *places, _FIRST_VALUE + values + len(self._texts)]
                layout.append(f"q{numbers}d{len(text)}s")
                self._texts.append(text)
                end += VALUE_BYTES * (1 + numbers) + len(text)
            if end > begin:
                self.cuts.append((form.table, begin, end))
        self._picked = _picker(picked)
        self._pack = Struct("".join(layout)).pack

    def filled(self, raw: bytes, now_ms: int) -> FilledTick | None:
        """Return what a request of the form's length says up to now [Unix ms], ``None`` if it is of another form.

        Raises NotPlainError where views would have to tell.
        """
        parts = self._unpack(raw)
        if parts[0::3] != self._same:
            return None
        of_points, values = parts[1::3], parts[2::3]
        spans = self._different(of_points)
        if self._spans_of_points(spans) != of_points or [_tags(span) for span in spans] != self._tags:
            return None
        if not isfinite(sum(values)):
            raise NotPlainError
        ts_ms = _moment_ms(spans[0][-9:-1])
        if not _YEAR_2000_MS <= ts_ms <= now_ms or len({span[-9:-1] for span in spans}) > 1:
            raise NotPlainError
        seen = [card.seen(ts_ms, spans, values) for card in self._cards]
        return FilledTick(ts_ms, self._pack(*self._picked((nan, ts_ms, *values, *self._texts))), seen)


def _first(attributes: bytes) -> bytes:
    """Return the first of them, which says of which card a point is."""
    return attributes[: 2 + attributes[1]] if attributes else b""


def _tags(span: bytes) -> bytes:
    return span[::9]


def _moment_ms(moment: bytes) -> int:
    ms, rest = divmod(int.from_bytes(moment, "little"), _NS_PER_MS)
    if rest:
        raise NotPlainError
    return ms


def form_of(raw: bytes) -> Form:
    """Return the form of a request. Raises NotPlainError where views would have to tell."""
    request = read(raw)
    if not request.points:
        raise NotPlainError
    return Form(raw, request.points, subjects.sender(request.resource), subjects.rows(request.points))


def _picker(places: Sequence[int]) -> Pick:
    """Return what picks these, of which there may be one or none."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda of: tuple([of[place] for place in places])
