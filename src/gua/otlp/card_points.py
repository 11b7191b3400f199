"""The points of one card of a tick as bytes: all that stays from tick to tick is put together once.

A card has some 35 points, each process 6 more, and from one tick to the next nearly always only times and values
differ. What lies between those is kept for each card as a form, which one call fills in.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from math import isfinite
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

from gua.core import fields, metrics
from gua.core.facts import busiest, type_totals
from gua.core.fields import PointForm
from gua.core.metrics import Metric, MetricKind
from gua.core.tick import CardReading
from gua.core.words import ProcessList, ProcessType
from gua.otlp import wire

Value = float | int | None
Spans = tuple[bytes, ...]
"""What points begin with, by the place that :func:`_span_place` gives: start, time and the tag of the value."""

NUMBERS: Final = {metric.name: number for number, metric in enumerate(metrics.CATALOGUE)}
"""The place of each metric in a request."""

_KINDS: Final = (MetricKind.GAUGE, MetricKind.DELTA, MetricKind.COUNTER)
_MOST_CARDS: Final = 1024
# Far more than eight cards have at a time; some 500 bytes each, as an agent of months meets very many.
_MOST_PROCESSES: Final = 2048
_MOST_ALLOCATIONS: Final = 1024

_DOUBLES, _MILLIS, _INTEGERS = (
    tuple(field.name for field in fields.CARD_FIELDS if field.form is form)
    for form in (PointForm.DOUBLE, PointForm.MILLI, PointForm.INTEGER)
)
_card_doubles: Final = attrgetter(*_DOUBLES)
_card_millis: Final = attrgetter(*_MILLIS)
_card_integers: Final = attrgetter(*_INTEGERS)
_card_facts: Final = attrgetter(*fields.CARD_INFO.values())
_PROCESS_IDENTITY: Final = ("pid", "created_ms", "owner", "comm")
_process_facts: Final = attrgetter(*_PROCESS_IDENTITY, *fields.PROCESS_INFO.values())
_process_values: Final = attrgetter(*[field.name for field in fields.PROCESS_FIELDS])
_allocation_facts: Final = attrgetter("source", "id", *fields.ALLOCATION_INFO.values())
_allocation_values: Final = attrgetter(*[field.name for field in fields.ALLOCATION_FIELDS])

# Where a card's values stand in the list of all; processes' and allocations' follow, a field of all of them at a time.
_ONE: Final = 0
_PLACES: Final = {name: 1 + place for place, name in enumerate((*_DOUBLES, *_MILLIS, *_INTEGERS))}
_IS_OK: Final = 1 + len(_PLACES)
_BUSIEST: Final = _IS_OK + 1
_TOTALS: Final = _BUSIEST + 1
_FURTHER: Final = _TOTALS + 3 * len(ProcessType)
_NO_TOTALS: Final = (None,) * 3 * len(ProcessType)


class _Point(NamedTuple):
    metric: Metric
    place: int
    is_integer: bool
    attributes: bytes


class _Form(NamedTuple):
    """A card's bytes without times and values. ``cuts``: where in them which metric's points lie."""

    key: object
    unknown: int
    parts: list[Any]
    pack: Callable[..., bytes]
    pick_spans: Callable[[Spans], tuple[bytes, ...]]
    pick_values: Callable[[Sequence[Value]], tuple[Value, ...]]
    cuts: tuple[tuple[int, int, int], ...]

    def filled(self, spans: Spans, values: Sequence[Value]) -> bytes:
        """Return the bytes. Raises struct.error where a value is not of the point's type, as ``None`` is."""
        parts = self.parts.copy()
        parts[1::3] = self.pick_spans(spans)
        parts[2::3] = self.pick_values(values)
        return self.pack(*parts)


_forms: dict[str, _Form] = {}


def spans(time_ns: int, start_ns: int, running_ns: int) -> Spans:
    """Return what the points of a card begin with: gauges, sums since ``start_ns``, sums since ``running_ns``."""
    begins = [wire.span(time_ns, start or None) for start in (0, start_ns, running_ns)]
    return tuple([begin + tag for begin in begins for tag in (wire.AS_DOUBLE, wire.AS_INT)])


def _span_place(metric: Metric, *, is_integer: bool) -> int:
    kind = MetricKind.COUNTER if metric.kind is MetricKind.AMOUNT else metric.kind
    return 2 * _KINDS.index(kind) + is_integer


def add_card(card: CardReading, spans: Spans, points: Sequence[list[bytes]]) -> None:
    """Append a card's points, joined by metric, to the list of each metric (:data:`NUMBERS`)."""
    key = (
        _card_facts(card),
        tuple(map(_process_facts, card.processes)),
        tuple(map(_allocation_facts, card.allocations)),
        len(spans[2]),
        len(spans[4]),
    )
    values = _values(card)
    form = _forms.get(card.uuid)
    if form is None or form.key != key or form.unknown != values.count(None):
        form = _keep(card, _checked(card, values), spans, key)
    try:
        filled = form.filled(spans, values)
    except struct.error:
        values = _checked(card, values)
        form = _keep(card, values, spans, key)
        filled = form.filled(spans, values)
    for number, begin, end in form.cuts:
        points[number].append(filled[begin:end])


def _values(card: CardReading) -> list[Value]:
    """Return all numbers of a card as they are sent, ``None`` for those that are not; integers are not checked."""
    doubles = _card_doubles(card)
    processes, allocations = card.processes, card.allocations
    values: list[Value] = [
        1,
        *doubles,
        *_thousandths(_card_millis(card)),
        *_card_integers(card),
        None if card.failed is None else not card.failed,
        busiest(processes) if processes else None,
    ]
    values += type_totals(processes) if card.process_list is ProcessList.KNOWN else _NO_TOTALS
    floats = doubles
    if processes:
        columns = list(zip(*map(_process_values, processes), strict=True))
        for field, column in zip(fields.PROCESS_FIELDS, columns, strict=True):
            if field.form is PointForm.DOUBLE:
                floats += column
            values += _thousandths(column) if field.form is PointForm.MILLI else column
    if allocations:
        for column in zip(*map(_allocation_values, allocations), strict=True):
            values += _thousandths(column)
    if not isfinite(sum(filter(None, floats))):
        return [None if isinstance(value, float) and not isfinite(value) else value for value in values]
    return values


def _thousandths(values: Sequence[int | None]) -> list[Value]:
    return [None if value is None else value / 1000 for value in values]


def _checked(card: CardReading, values: Sequence[Value]) -> list[Value]:
    """Return the values without those that no point can carry."""
    checked = list(values)
    for point in _points(card):
        form = PointForm.INTEGER if point.is_integer else PointForm.DOUBLE
        checked[point.place] = form.to_wire(values[point.place])
    return checked


def _keep(card: CardReading, values: Sequence[Value], spans: Spans, key: object) -> _Form:
    if card.uuid not in _forms and len(_forms) >= _MOST_CARDS:
        del _forms[next(iter(_forms))]
    form = _forms[card.uuid] = _form(card, values, spans, key)
    return form


def _form(card: CardReading, values: Sequence[Value], spans: Spans, key: object) -> _Form:
    points = [point for point in _points(card) if values[point.place] is not None]
    points.sort(key=lambda point: NUMBERS[point.metric.name])
    parts: list[Any] = []
    layout = ["<"]
    cuts: list[tuple[int, int, int]] = []
    places = [_span_place(point.metric, is_integer=point.is_integer) for point in points]
    begin, before = 0, b""
    for point, place in zip(points, places, strict=True):
        head = wire.point_head(len(spans[place]) + wire.VALUE_BYTES + len(point.attributes))
        parts += [before + head, None, None]
        layout += [f"{len(before) + len(head)}s{len(spans[place])}s{'q' if point.is_integer else 'd'}"]
        before = point.attributes
        end = begin + len(head) + len(spans[place]) + wire.VALUE_BYTES + len(before)
        number = NUMBERS[point.metric.name]
        if cuts and cuts[-1][0] == number:
            cuts[-1] = (number, cuts[-1][1], end)
        else:
            cuts.append((number, begin, end))
        begin = end
    return _Form(
        key=key,
        unknown=values.count(None),
        parts=[*parts, before],
        pack=struct.Struct("".join([*layout, f"{len(before)}s"])).pack,
        pick_spans=itemgetter(*places),
        pick_values=itemgetter(*[point.place for point in points]),
        cuts=tuple(cuts),
    )


def _points(card: CardReading) -> Iterator[_Point]:
    """Yield every point that a card can have, in the order in which those of one metric are sent."""
    identity, of_fields, of_types = _card_identity(card.uuid)
    for field, attributes in of_fields:
        yield _Point(field.metric, _PLACES[field.name], field.form is PointForm.INTEGER, attributes)
    ok = identity + wire.attributes(*fields.STATUS_OK)
    info = wire.attributes(*zip(fields.CARD_INFO, _card_facts(card), strict=True))
    yield _Point(metrics.STATUS, _IS_OK, is_integer=True, attributes=ok)
    yield _Point(metrics.INFO, _ONE, is_integer=True, attributes=identity + info)
    yield _Point(metrics.PROCESS_UTILIZATION_MAX, _BUSIEST, is_integer=False, attributes=identity)
    totals = (metrics.PROCESS_COUNT, metrics.PROCESS_MEMORY, metrics.PROCESS_MEMORY_UNKNOWN)
    for place, (of_type, metric) in enumerate((of_type, metric) for of_type in of_types for metric in totals):
        yield _Point(metric, _TOTALS + place, is_integer=True, attributes=of_type)
    yield from _of_processes(card, _FURTHER)
    yield from _of_allocations(card, _FURTHER + len(fields.PROCESS_FIELDS) * len(card.processes))


def _of_processes(card: CardReading, first: int) -> Iterator[_Point]:
    for number, process in enumerate(card.processes):
        identity, info = _process_attributes(card.uuid, *_process_facts(process))
        duration = _PLACES["duration_ms"]
        yield _Point(metrics.PROCESS_SAMPLE_DURATION, duration, is_integer=False, attributes=identity)
        for column, field in enumerate(fields.PROCESS_FIELDS):
            place = first + column * len(card.processes) + number
            yield _Point(field.metric, place, field.form is PointForm.INTEGER, identity)
        yield _Point(metrics.PROCESS_INFO, _ONE, is_integer=True, attributes=info)


def _of_allocations(card: CardReading, first: int) -> Iterator[_Point]:
    for number, allocation in enumerate(card.allocations):
        identity, info = _allocation_attributes(card.uuid, *_allocation_facts(allocation))
        for column, field in enumerate(fields.ALLOCATION_FIELDS):
            place = first + column * len(card.allocations) + number
            yield _Point(field.metric, place, field.form is PointForm.INTEGER, identity)
        yield _Point(metrics.ALLOCATION_INFO, _ONE, is_integer=True, attributes=info)


@lru_cache(maxsize=_MOST_CARDS)
def _card_identity(uuid: str) -> tuple[bytes, tuple[tuple[fields.Field, bytes], ...], tuple[bytes, ...]]:
    """Return the attributes of a card's points: those of all, those of each field, those of each process type."""
    identity = wire.attributes(("hw.id", uuid))
    return (
        identity,
        tuple((field, identity + wire.attributes(*field.attributes)) for field in fields.CARD_FIELDS),
        tuple(identity + wire.attributes(("gua.process.type", kind.value)) for kind in ProcessType),
    )


@lru_cache(maxsize=_MOST_PROCESSES)
def _process_attributes(
    uuid: str, pid: int, created_ms: int | None, owner: str | None, comm: str | None, *facts: wire.Value | None
) -> tuple[bytes, bytes]:
    """Return the attributes of a process's points, and those of its info."""
    told = (uuid, pid, fields.moment(created_ms), owner, comm)
    identity = wire.joined(zip(metrics.PROCESS_ATTRIBUTES, told, strict=True))
    return identity, identity + wire.joined(zip(fields.PROCESS_INFO, facts, strict=True))


@lru_cache(maxsize=_MOST_ALLOCATIONS)
def _allocation_attributes(uuid: str, source: str, id_: str, *facts: wire.Value | None) -> tuple[bytes, bytes]:
    """Return the attributes of an allocation's points, and those of its info."""
    identity = wire.joined(zip(metrics.ALLOCATION_ATTRIBUTES, (uuid, source, id_), strict=True))
    named = zip(fields.ALLOCATION_INFO.items(), facts, strict=True)
    return identity, identity + wire.joined(
        (key, fields.moment(fact) if name in fields.MOMENTS and isinstance(fact, int) else fact)
        for (key, name), fact in named
    )
