"""The points of a request by what they are about: a row of a table of ticks, its numbers and its text.

What attributes say is worked out once: from tick to tick a host's points have the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from struct import pack
from typing import Final, NamedTuple

from gua.core import fields, metrics
from gua.core.metrics import Metric, Subject
from gua.store.requests import columns
from gua.store.requests.columns import RowForm
from gua.store.requests.reading import Attributes, NotPlainError, Point, Value, attributes_of

_MOST_UINT32: Final = 0xFFFF_FFFF
_INFOS: Final = (metrics.INFO, metrics.PROCESS_INFO, metrics.ALLOCATION_INFO, metrics.ALLOCATION_SOURCE_DURATION)
_IDENTITIES: Final = {
    Subject.CARD: metrics.CARD_ATTRIBUTES,
    Subject.PROCESS: metrics.PROCESS_ATTRIBUTES,
    Subject.ALLOCATION: metrics.ALLOCATION_ATTRIBUTES,
    Subject.SOURCE: metrics.SOURCE_ATTRIBUTES,
}
# How many of them are the key of a row, and how many of those every row has: a process's start may be unknown.
_KEYS: Final = {Subject.CARD: 1, Subject.PROCESS: 3, Subject.ALLOCATION: 3, Subject.SOURCE: 1}
_SURE: Final = {**_KEYS, Subject.PROCESS: 2}
# Without these points views tell less of a row: what a card's span is, who has a process.
_NEEDED: Final = {columns.CARD: {"duration_ms", "gpu_time_ms"}, columns.PROCESS: {"duration_ms"}}
_MOST_KEPT: Final = 8192
"""Attributes of points of a host with far more than 80 processes, some 500 bytes each."""

Identity = tuple[Value | None, ...]


class _Way(NamedTuple):
    """Where the points of a metric go: the column by what their attributes say besides whom they are about."""

    form: RowForm
    identity: tuple[bytes, ...]
    keys: int
    sure: int
    columns: Mapping[frozenset[tuple[bytes, Value]], str | None]
    tells: frozenset[bytes]


class _Said(NamedTuple):
    """What the attributes of a point say: whom it is about, in which column its value is, whether they tell more."""

    form: RowForm
    identity: Identity
    keys: int
    column: str | None
    is_info: bool


class SubjectRow:
    """A row of a table of ticks: which point is which number, and the attributes that tell what it is about."""

    def __init__(self, identity: Identity) -> None:
        """Make one of whom the points are about."""
        self.identity = identity
        self.numbers: dict[str, int] = {}
        self.info = b""


class RequestSender(NamedTuple):
    """Who sent the request; ``host`` and ``labels`` as they are written."""

    host: bytes
    source: bytes
    interval_ms: int
    labels: bytes
    agent: tuple[bytes, bytes]
    version: bytes


@lru_cache(maxsize=256)
def sender(raw: bytes) -> RequestSender:
    """Return who sent it. Raises NotPlainError where views would have to tell."""
    resource = attributes_of(raw, resource=True)
    texts = {key: value for key, value in resource.items() if isinstance(value, bytes)}
    interval = resource.get(b"gua.sample.interval")
    host, source = texts.get(b"host.name"), texts.get(b"gua.source")
    if not host or not source or not isinstance(interval, float) or len(texts) != len(resource) - 1:
        raise NotPlainError
    interval_ms = round(interval * 1000) if 0 < interval * 1000 <= _MOST_UINT32 else 0
    if not interval_ms or interval_ms / 1000 != interval:
        raise NotPlainError
    number = repr(interval).removesuffix(".0").encode()
    labels = [columns.text(key) + columns.text(texts.get(key, number)) for key in resource]
    return RequestSender(
        columns.text(host),
        source,
        interval_ms,
        columns.size(len(labels)) + b"".join(labels),
        (texts.get(b"service.instance.id", b""), texts.get(b"host.id", b"")),
        texts.get(b"service.version", b""),
    )


def rows(points: Sequence[Point]) -> dict[RowForm, list[SubjectRow]]:
    """Return the rows that the points make. Raises NotPlainError where views would have to tell."""
    found: dict[str, dict[Identity, SubjectRow]] = {form.table: {} for form in columns.FORMS.values()}
    for number, (metric, _, _, _, attributes) in enumerate(points):
        said = _said(metric.name, attributes)
        if said is None:
            continue
        form, identity, keys, column, is_info = said
        of_table = found[form.table]
        row = of_table.get(identity[:keys])
        if row is None:
            row = of_table[identity[:keys]] = SubjectRow(identity)
        if row.identity != identity or column in row.numbers or (is_info and row.info):
            raise NotPlainError
        if column is not None:
            row.numbers[column] = number
        if is_info:
            row.info = attributes
    made = {form: list(found[form.table].values()) for form in columns.FORMS.values()}
    for form, of_form in made.items():
        needed = _NEEDED.get(form, set())
        if not all(row.info and row.numbers.keys() >= needed for row in of_form):
            raise NotPlainError
    return made


@lru_cache(maxsize=_MOST_KEPT)
def _said(metric: str, raw: bytes) -> _Said | None:
    """Return what a point's attributes say, ``None`` of one that is not stored. Raises NotPlainError."""
    way = _WAYS.get(metric)
    if way is None:
        return None
    attributes = attributes_of(raw)
    identity = tuple([attributes.get(key) for key in way.identity])
    extra = {name: value for name, value in attributes.items() if name not in way.identity}
    if any(value is None or value == b"" for value in identity[: way.sure]):
        raise NotPlainError
    if way.tells:
        if not extra.keys() <= way.tells:
            raise NotPlainError
        extra = {}
    column = way.columns.get(frozenset(extra.items()), "")
    if column == "":
        raise NotPlainError
    return _Said(way.form, identity, way.keys, column, bool(way.tells))


@lru_cache(maxsize=_MOST_KEPT)
def text_of(table: str, info: bytes, of: RequestSender) -> bytes:
    """Return the bytes of a row of a table without its time and numbers. Raises NotPlainError."""
    attributes = attributes_of(info)
    if table == columns.CARD.table:
        key = columns.text(of.source) + pack("<I", of.interval_ms) + _texts(attributes, metrics.CARD_ATTRIBUTES)
    elif table == columns.PROCESS.table:
        pid, created = attributes[b"process.pid"], attributes.get(b"process.creation.time")
        if not isinstance(pid, int) or not 0 <= pid <= _MOST_UINT32:
            raise NotPlainError
        created_ms = columns.unix_ms(created) if isinstance(created, bytes) and created else 0
        key = _texts(attributes, metrics.CARD_ATTRIBUTES) + pack("<Iq", pid, created_ms)
    elif table == columns.ALLOCATION.table:
        key = _texts(attributes, metrics.ALLOCATION_ATTRIBUTES)
    else:
        key = _texts(attributes, metrics.SOURCE_ATTRIBUTES)
    return of.host + key + columns.told(_FORMS[table].told, attributes)


@lru_cache(maxsize=1024)
def card(info: bytes) -> tuple[bytes, bytes]:
    """Return the bytes of which card it is, and of what it is. Raises NotPlainError."""
    attributes = attributes_of(info)
    return _texts(attributes, metrics.CARD_ATTRIBUTES), columns.told(columns.INFO_TOLD, attributes)


def _texts(attributes: Attributes, names: Sequence[str]) -> bytes:
    values = [attributes[name.encode()] for name in names]
    return b"".join([columns.text(value) for value in values if isinstance(value, bytes)])


def _way(metric: Metric) -> _Way:
    of_columns = {_extra(column.attributes): column.name for column in metric.columns}
    besides = fields.STATUS_OK if metric is metrics.STATUS else ()
    return _Way(
        columns.FORMS[metric.subject],
        tuple(name.encode() for name in _IDENTITIES[metric.subject]),
        _KEYS[metric.subject],
        _SURE[metric.subject],
        {**({} if metric.columns and not besides else {_extra(besides): None}), **of_columns},
        frozenset(name.encode() for name in metric.attributes if metric in _INFOS),
    )


def _extra(attributes: Sequence[tuple[str, str]]) -> frozenset[tuple[bytes, Value]]:
    return frozenset((name.encode(), value.encode()) for name, value in attributes)


_WAYS: Final = {metric.name: _way(metric) for metric in metrics.CATALOGUE if metric.subject in _IDENTITIES}
"""Of an agent's own points only the time of its ticks is kept, and that it sent one."""
_FORMS: Final = {form.table: form for form in columns.FORMS.values()}
