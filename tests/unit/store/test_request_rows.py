"""Spooled requests as rows are what the views make of their points: the same ones by both ways, also odd ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from fakes.every_tick import AGENT, FULL, LEAST, NOON_MS, NOW_MS, ORIGIN, OUTSIDE, SOURCES, every_kind, tables_of
from gua.core.ports import SpooledTick
from gua.core.tick import CardReading, ErrorCount, ProcessReading, Tick
from gua.core.words import Mig, Source
from gua.otlp.encode import encode
from gua.state.compression import compress
from gua.store.connection import QueryError
from gua.store.database import open_store
from gua.store.requests import batch as of_requests
from gua.store.requests.batch import Forms, RequestRows, landed_as_rows

Change = Callable[[Any], None]
PLAIN = "rows"
NOT_PLAIN = "points"


def made(number: int, *cards: CardReading, **others: Any) -> bytes:  # noqa: ANN401 - any field of a tick
    """Return the request of a host of its own."""
    origin = replace(others.pop("origin", ORIGIN), host=f"odd-{number}", source=Source.AGENT)
    readings = {"agent": AGENT, "allocation_sources": SOURCES, **others}
    return encode(Tick(**{"ts_ms": NOON_MS + 43, "origin": origin, "cards": cards or (FULL,), **readings}))


def metric_of(message: Any, name: str) -> Any:  # noqa: ANN401 - the generated classes have no types
    (metric,) = [one for one in message.resource_metrics[0].scope_metrics[0].metrics if one.name == name]
    return metric


def points_of(message: Any, name: str) -> Any:  # noqa: ANN401 - as above
    metric = metric_of(message, name)
    return metric.sum.data_points if metric.HasField("sum") else metric.gauge.data_points


def told(name: str, key: str, **value: object) -> Change:
    """Return what sets an attribute of the first point of a metric."""

    def change(message: Any) -> None:  # noqa: ANN401 - as above
        attributes = points_of(message, name)[0].attributes
        for one in [one for one in attributes if one.key == key]:
            attributes.remove(one)
        added = attributes.add(key=key)
        for kind, one in value.items():
            setattr(added.value, kind, one)

    return change


def valued(name: str, **value: object) -> Change:
    """Return what sets fields of the first point of a metric."""

    def change(message: Any) -> None:  # noqa: ANN401 - as above
        for kind, one in value.items():
            setattr(points_of(message, name)[0], kind, one)

    return change


def summed(name: str, **value: object) -> Change:
    """Return what sets fields of a metric that is a sum."""

    def change(message: Any) -> None:  # noqa: ANN401 - as above
        for kind, one in value.items():
            setattr(metric_of(message, name).sum, kind, one)

    return change


def all_points(**value: object) -> Change:
    """Return what sets fields of all points."""

    def change(message: Any) -> None:  # noqa: ANN401 - as above
        for metric in message.resource_metrics[0].scope_metrics[0].metrics:
            for point in points_of(message, metric.name):
                for kind, one in value.items():
                    setattr(point, kind, one)

    return change


def sent(key: str, *, again: bool = False, **value: object) -> Change:
    """Return what sets an attribute of the resource, or adds it a second time."""

    def change(message: Any) -> None:  # noqa: ANN401 - as above
        attributes = message.resource_metrics[0].resource.attributes
        for one in [one for one in attributes if one.key == key and not again]:
            attributes.remove(one)
        added = attributes.add(key=key)
        for kind, one in value.items():
            setattr(added.value, kind, one)

    return change


def without(name: str) -> Change:
    """Return what takes a metric out."""
    return lambda message: message.resource_metrics[0].scope_metrics[0].metrics.remove(metric_of(message, name))


def twice(name: str) -> Change:
    """Return what doubles the first point of a metric, with another value."""

    def change(message: Any) -> None:  # noqa: ANN401 - as above
        points = points_of(message, name)
        points.add().CopyFrom(points[0])
        points[-1].as_double = 0.75

    return change


def another(**fields: str) -> Change:
    """Return what gives the first metric fields that our encoder does not write, or writes otherwise."""

    def change(message: Any) -> None:  # noqa: ANN401 - as above
        for name, value in fields.items():
            setattr(message.resource_metrics[0].scope_metrics[0].metrics[0], name, value)

    return change


def scoped(name: str) -> Change:
    """Return what renames the scope."""
    return lambda message: setattr(message.resource_metrics[0].scope_metrics[0].scope, "name", name)


def unchanged(_: object) -> None:
    """Leave it as our encoder wrote it."""


def reversed_metrics(message: Any) -> None:  # noqa: ANN401 - as above
    """Turn the order round, as that of another version is another."""
    metrics = message.resource_metrics[0].scope_metrics[0].metrics
    turned = [type(metrics[0]).FromString(one.SerializeToString()) for one in reversed(metrics)]
    del metrics[:]
    metrics.extend(turned)


def two_resources(message: Any) -> None:  # noqa: ANN401 - as above
    """Send all of it twice."""
    message.resource_metrics.add().CopyFrom(message.resource_metrics[0])


def exemplar(message: Any) -> None:  # noqa: ANN401 - as above
    """Give a point what ours never have."""
    points_of(message, "hw.power")[0].exemplars.add(as_double=1.0)


NS = 1_000_000
AT_NS = (NOON_MS + 43) * NS
ODD: list[tuple[str, Change]] = [
    (PLAIN, unchanged),
    (PLAIN, reversed_metrics),
    (PLAIN, scoped("gpu_usage_audit")),
    (PLAIN, without("hw.power")),
    (PLAIN, without("gua.agent.tick.duration")),
    (PLAIN, valued("hw.power", as_int=71)),
    (PLAIN, valued("hw.power", as_double=-0.0)),
    (PLAIN, valued("gua.queue.waiting", as_double=7.0)),
    (PLAIN, valued("hw.gpu.utilization", as_double=0.00005)),
    (PLAIN, valued("hw.gpu.utilization", as_double=0.00015)),
    (PLAIN, valued("hw.gpu.utilization", as_double=1e300)),
    (PLAIN, valued("hw.gpu.memory.usage", as_int=2**63 - 1)),
    (PLAIN, valued("hw.gpu.memory.usage", as_int=2**53 + 1)),
    (PLAIN, valued("hw.energy", as_double=1.8446744073709552e16)),
    (PLAIN, valued("gua.gpu.time", as_double=30.4999)),
    (PLAIN, valued("gua.gpu.time", as_double=40_000.0)),
    (PLAIN, valued("gua.gpu.info", as_int=0)),
    (PLAIN, valued("gua.process.sample.duration", as_double=-5.0)),
    (PLAIN, told("gua.gpu.info", "hw.model", string_value="")),
    (PLAIN, told("gua.process.info", "process.user.id", int_value=2**32)),
    (PLAIN, told("gua.gpu.info", "gua.gpu.index", int_value=65_536)),
    (PLAIN, told("gua.gpu.info", "gua.gpu.index", int_value=65_535)),
    (PLAIN, told("gua.gpu.allocation.info", "gua.allocation.user.id", int_value=-7)),
    (PLAIN, sent("host.id", string_value="")),
    (PLAIN, sent("service.version", string_value="")),
    (PLAIN, sent("gua.sample.interval", double_value=86_400.0)),
    (PLAIN, sent("gua.sample.interval", double_value=0.001)),
    (NOT_PLAIN, scoped("another")),
    (NOT_PLAIN, another(name="gua.gpu.of.tomorrow")),
    (NOT_PLAIN, another(description="Seconds")),
    (NOT_PLAIN, without("gua.gpu.sample.duration")),
    (NOT_PLAIN, without("gua.gpu.time")),
    (NOT_PLAIN, without("gua.gpu.info")),
    (NOT_PLAIN, without("gua.process.sample.duration")),
    (NOT_PLAIN, without("gua.process.info")),
    (NOT_PLAIN, without("gua.gpu.allocation.info")),
    (NOT_PLAIN, without("gua.allocation.source.duration")),
    (NOT_PLAIN, twice("hw.power")),
    (NOT_PLAIN, twice("gua.process.gpu.time")),
    (NOT_PLAIN, twice("gua.gpu.info")),
    (NOT_PLAIN, two_resources),
    (NOT_PLAIN, exemplar),
    (NOT_PLAIN, summed("hw.gpu.memory.usage", aggregation_temporality=1)),
    (NOT_PLAIN, summed("hw.gpu.memory.usage", is_monotonic=True)),
    (NOT_PLAIN, summed("gua.gpu.time", aggregation_temporality=2)),
    (NOT_PLAIN, valued("hw.power", flags=1)),
    (NOT_PLAIN, valued("hw.power", as_double=nan)),
    (NOT_PLAIN, valued("hw.power", as_double=inf)),
    (NOT_PLAIN, valued("gua.process.gpu.time", as_double=-inf)),
    (NOT_PLAIN, valued("gua.agent.tick.duration", as_double=nan)),
    (NOT_PLAIN, valued("gua.gpu.sample.duration", as_double=29.0)),
    (NOT_PLAIN, valued("gua.gpu.sample.duration", start_time_unix_nano=0)),
    (NOT_PLAIN, valued("gua.gpu.sample.duration", start_time_unix_nano=AT_NS)),
    (NOT_PLAIN, valued("gua.gpu.time", start_time_unix_nano=AT_NS - 7 * NS)),
    (NOT_PLAIN, valued("gua.gpu.time", as_double=-1.0)),
    (NOT_PLAIN, valued("gua.gpu.time", as_double=1e10)),
    (NOT_PLAIN, valued("gua.gpu.time", as_double=1e307)),
    (NOT_PLAIN, valued("gua.gpu.sample.duration", as_double=1e307)),
    (NOT_PLAIN, valued("hw.power", time_unix_nano=AT_NS + 1000 * NS)),
    (NOT_PLAIN, all_points(time_unix_nano=AT_NS + 1)),
    (NOT_PLAIN, all_points(time_unix_nano=0)),
    (NOT_PLAIN, all_points(time_unix_nano=946_684_799_999 * NS)),
    (NOT_PLAIN, all_points(time_unix_nano=2**63 - 1)),
    (NOT_PLAIN, told("hw.power", "hw.type", string_value="fan")),
    (NOT_PLAIN, told("hw.power", "hw.id", string_value="")),
    (NOT_PLAIN, told("hw.power", "rack", string_value="r1")),
    (NOT_PLAIN, told("hw.status", "hw.state", string_value="degraded")),
    (NOT_PLAIN, told("gua.gpu.info", "gua.gpu.index", string_value="3")),
    (NOT_PLAIN, told("gua.gpu.info", "gua.gpu.memory.shared", string_value="true")),
    (NOT_PLAIN, told("gua.gpu.info", "hw.name", int_value=5)),
    (NOT_PLAIN, told("gua.gpu.info", "hw.name")),
    (NOT_PLAIN, told("gua.process.sample.duration", "process.pid", int_value=-1)),
    (NOT_PLAIN, told("gua.process.info", "process.owner", string_value="another")),
    (NOT_PLAIN, told("gua.process.gpu.time", "process.creation.time", string_value="yesterday")),
    (NOT_PLAIN, told("gua.gpu.allocation.info", "gua.allocation.since", string_value="2026-03-25 12:00:00")),
    (NOT_PLAIN, told("gua.gpu.allocation.info", "gua.allocation.until", string_value="2026-03-25T12:00:00.000+01:00")),
    (NOT_PLAIN, told("gua.gpu.allocation.info", "gua.allocation.until", string_value="2101-01-01T00:00:00.000Z")),
    (NOT_PLAIN, told("gua.gpu.allocation.info", "gua.allocation.id", string_value="")),
    (NOT_PLAIN, sent("host.name", string_value="")),
    (NOT_PLAIN, sent("gua.source", string_value="")),
    (NOT_PLAIN, sent("gua.sample.interval", double_value=0.0)),
    (NOT_PLAIN, sent("gua.sample.interval", double_value=0.0005)),
    (NOT_PLAIN, sent("gua.sample.interval", double_value=1e22)),
    (NOT_PLAIN, sent("gua.sample.interval", string_value="30")),
    (NOT_PLAIN, sent("", string_value="of no name")),
    (NOT_PLAIN, sent("rack", int_value=7)),
    (NOT_PLAIN, sent("rack", string_value="again", again=True)),
    (NOT_PLAIN, sent("process.pid", string_value="")),
]
CARDS = (FULL, OUTSIDE, LEAST)


def odd_requests() -> Iterator[tuple[str, bytes]]:
    for number, (way, change) in enumerate(ODD):
        message = ExportMetricsServiceRequest.FromString(made(number, *CARDS))
        change(message)
        yield way, message.SerializeToString()


def in_turns() -> list[bytes]:
    """Return two hosts' ticks, in which numbers come and go, spans change and processes and cards come new."""
    agent = replace(AGENT, errors=(ErrorCount(call="nvml", code="UNKNOWN", count=3),))
    cards = [
        (FULL, LEAST),
        (replace(FULL, power_watts=None, xid=None), LEAST),
        (FULL, replace(LEAST, duration_ms=29_000, gpu_time_ms=29_000)),
        (replace(FULL, processes=(*FULL.processes, ProcessReading(pid=9))), LEAST),
        (LEAST,),
        (),
        (replace(FULL, mig=Mig.PARENT, gpu_time_ms=0), replace(FULL, uuid="MIG-1", parent="GPU-1", name="名")),
    ]
    return [
        encode(
            Tick(
                ts_ms=NOON_MS + number * 30_000,
                origin=replace(ORIGIN, host=f"turn-{number % 2}", service_version=str(number // 9)),
                cards=cards[(number * 5) % len(cards)],
                agent=agent,
                allocation_sources=SOURCES[: number % 3],
            )
        )
        for number in range(42)
    ]


def spooled(requests: Sequence[bytes]) -> list[SpooledTick]:
    return [
        SpooledTick(id=number, ts_ms=number, raw_length=len(raw), blob=compress(raw))
        for number, raw in enumerate(requests, start=1)
    ]


def landed(address: str, requests: Sequence[bytes], *, most_bytes: int, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - tables
    monkeypatch.setattr(of_requests, "MOST_BYTES", most_bytes)
    with open_store(address) as store:
        assert store.land(spooled(requests)) == []
        return tables_of(store)


@pytest.mark.engine
def test_requests_land_as_rows_as_they_land_as_points(
    tmp_path: Path, made_store: Callable[[Path], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of the same host before, as only its times and values should differ.
    before = [made(number, *CARDS, ts_ms=NOON_MS - 30_000) for number in range(len(ODD))]
    odd = [raw for pair in zip(before, (raw for _, raw in odd_requests()), strict=True) for raw in pair]
    requests = odd + in_turns() + [encode(tick) for tick in every_kind()]
    points = landed(made_store(tmp_path / "points"), requests, most_bytes=0, monkeypatch=monkeypatch)
    rows = landed(made_store(tmp_path / "rows"), requests, most_bytes=2**20, monkeypatch=monkeypatch)
    for table, of_points in points.items():
        assert rows[table] == of_points, table
        assert of_points, table


@pytest.mark.parametrize("is_form_known", [False, True])
def test_only_requests_that_rows_tell_in_full_go_as_rows(*, is_form_known: bool) -> None:
    for number, (way, raw) in enumerate(odd_requests()):
        rows = RequestRows(Forms(), NOW_MS)
        if is_form_known:
            assert rows.add(made(number, *CARDS))
        assert rows.add(raw) == (way == PLAIN), number


def test_no_cut_or_changed_byte_of_a_request_is_more_than_other_points() -> None:
    raw = made(0, *CARDS)
    for at in range(0, len(raw), 7):
        for odd in (raw[:at], raw[:at] + bytes((raw[at] ^ 0x80,)) + raw[at + 1 :], raw + raw[:at]):
            RequestRows(Forms(), NOW_MS).add(odd)
    assert not RequestRows(Forms(), NOW_MS).add(b"\x0a" + b"\x80" * 1000)


def test_of_a_form_is_what_differs_in_times_and_values_alone() -> None:
    forms = Forms()
    rows = RequestRows(forms, NOW_MS)
    requests = [made(0, replace(FULL, power_watts=watts), ts_ms=NOON_MS + int(watts)) for watts in (70.0, 71.5, 72.0)]
    assert all(map(rows.add, requests))
    assert len(forms) == 1
    assert rows.add(made(1, FULL))
    assert len(forms) == 2


def test_forms_are_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    forms = Forms()
    rows = RequestRows(forms, NOW_MS)
    monkeypatch.setattr(of_requests, "MOST_KEPT", 3 * len(made(0)))
    assert all(rows.add(made(number)) for number in (0, 1, 2, 3, 0))
    assert len(forms) == 3


def test_what_the_engine_refuses_as_rows_and_what_is_damaged_is_left_for_points() -> None:
    good, bad, damaged = spooled([made(0), made(1), made(2)])
    damaged = replace(damaged, blob=damaged.blob[:-5])
    inserted: list[list[str]] = []
    refusal = "Cannot parse input"

    def insert(parts: Iterator[Any]) -> None:
        inserted.append([part.table for part in parts])
        if len(inserted) == 2:
            raise QueryError(refusal, code=27)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of_requests, "MOST_SIZE", 1)
        assert landed_as_rows([good, damaged, bad], Forms(), insert) == [damaged, bad]
    assert len(inserted) == 2
    assert inserted[0][-1] == "card_ticks"
