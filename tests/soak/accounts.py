"""The final account: what the agents recorded, held against every view, row by row and value by value."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from gua.core.facts import card_facts, ratio
from gua.core.rules import Rules, classify, process_state
from gua.core.tick import CardReading, ProcessReading, Tick
from gua.otlp.decode import decode
from servers.clickhouse import ClickHouseServer
from servers.gua import Gua

Row = tuple[Hashable, ...]

CARD_TICKS = """
    SELECT host, gpu, toUnixTimestamp64Milli(ts), duration_ms, gpu_time_ms, utilization, utilization_max,
        utilization_coverage_ms, memory_used_bytes, memory_limit_bytes, memory_reserved_bytes, power_mw,
        energy_total_mj, energy_mj, failed, process_list, interval_ms
    FROM gua.card_ticks FINAL
"""
PROCESS_TICKS = """
    SELECT host, gpu, toUnixTimestamp64Milli(ts), pid, toUnixTimestamp64Milli(created), duration_ms, gpu_time_ms,
        memory_bytes, utilization, owner, program, uid
    FROM gua.process_ticks FINAL
"""
CARD_STATES = "SELECT host, gpu, toUnixTimestamp64Milli(ts), duration_ms, gpu_time_ms, state FROM gua.card_states"
PROCESS_STATES = """
    SELECT host, gpu, toUnixTimestamp64Milli(ts), pid, toUnixTimestamp64Milli(created), duration_ms, memory_bytes, state
    FROM gua.process_states
"""
CARD_HOURS = """
    SELECT host, gpu, sum(card_ticks), sum(duration_ms), sum(gpu_time_ms) FROM gua.card_hours GROUP BY host, gpu
"""
_POINT = "ResourceAttributes['host.name'], MetricName, toString(Attributes), TimeUnix"
LANDED = f"""
    SELECT sum(landed), sum(points)
    FROM
    (
        SELECT count() AS landed, uniqExact({_POINT}) AS points FROM gua.otel_metrics_gauge
        UNION ALL
        SELECT count() AS landed, uniqExact({_POINT}) AS points FROM gua.otel_metrics_sum
    )
"""


@dataclass(frozen=True)
class View:
    """One view's rows beside those that the recorded ticks make."""

    name: str
    expected: Counter[Row]
    found: Counter[Row]

    @property
    def lost(self) -> int:
        return (self.expected - self.found).total()

    @property
    def surplus(self) -> int:
        return (self.found - self.expected).total()

    def first(self) -> str:
        """Return a row that is missing and one that is too many."""
        missing = next(iter(self.expected - self.found), None)
        surplus = next(iter(self.found - self.expected), None)
        return f"{self.name}: missing {missing}, too many {surplus}"


@dataclass(frozen=True)
class Account:
    """All views, and how the points arrived in the landing tables."""

    views: Sequence[View]
    ticks: int
    seconds: float
    landed: int
    points: int
    points_recorded: int

    @property
    def duplicates(self) -> int:
        """Points that arrived once more than they had to."""
        return self.landed - self.points

    @property
    def settled(self) -> bool:
        return self.points == self.points_recorded and not any(view.lost or view.surplus for view in self.views)

    @property
    def lost(self) -> int:
        """Card ticks that were recorded and are not there, or not with all their values."""
        return self.views[0].lost

    def differences(self) -> list[str]:
        """Return a line for each view that differs."""
        return [view.first() for view in self.views if view.lost or view.surplus]

    def summary(self) -> str:
        """Return the figures in a line."""
        found = self.views[0].found.total()
        return f"{self.ticks} ticks, {found} of {self.views[0].expected.total()} card ticks, {self.lost} lost"

    def lines(self) -> Iterable[str]:
        yield f"{'recorded':<16} {self.ticks:>9,} ticks of {self.seconds:,.3f} card seconds"
        for view in self.views:
            rows = f"{view.found.total():>9,} rows of {view.expected.total():,}"
            yield f"{view.name:<16} {rows}: {view.lost} lost, {view.surplus} surplus"
        yield f"{'points':<16} {self.points:>9,} landed of {self.points_recorded:,}"
        yield f"{'duplicates':<16} {self.duplicates:>9,} points that landed once more"


def account(recorded: dict[str, list[bytes]], server: ClickHouseServer, gua: Gua) -> Account:
    """Return the account of everything recorded so far."""
    ticks = [decode(raw) for raws in recorded.values() for raw in raws]
    cards = [(tick, card) for tick in ticks for card in tick.cards]
    processes = [(tick, card, process) for tick, card in cards for process in card.processes]
    views = [
        _view("card_ticks", (_card_tick(*each) for each in cards), server, CARD_TICKS),
        _view("process_ticks", (_process_tick(*each) for each in processes), server, PROCESS_TICKS),
        _view("card_states", (_card_state(*each) for each in cards), server, CARD_STATES),
        _view("process_states", (_process_state(*each) for each in processes), server, PROCESS_STATES),
        _view("card_hours", _sums(cards), server, CARD_HOURS),
        View("report", Counter(_reported(cards)), Counter(_report(server, gua))),
    ]
    arrivals, points = landed(server)
    return Account(
        views=views,
        ticks=len(ticks),
        seconds=sum(card.duration_ms for _, card in cards) / 1000,
        landed=arrivals,
        points=points,
        points_recorded=sum(points_in(raw) for raws in recorded.values() for raw in raws),
    )


def landed(server: ClickHouseServer) -> tuple[int, int]:
    """Return how many points are in the landing tables, and how many different ones."""
    ((arrivals, points),) = _rows(server, LANDED)
    return arrivals, points


def points_in(raw: bytes) -> int:
    """Return how many points a request has."""
    return sum(
        len(metric.sum.data_points) + len(metric.gauge.data_points)
        for resource_metrics in ExportMetricsServiceRequest.FromString(raw).resource_metrics
        for scope_metrics in resource_metrics.scope_metrics
        for metric in scope_metrics.metrics
    )


def _view(name: str, expected: Iterable[Row], server: ClickHouseServer, sql: str) -> View:
    return View(name, Counter(expected), Counter(_rows(server, sql)))


def _rows(server: ClickHouseServer, sql: str) -> list[tuple]:
    settings = "SETTINGS output_format_json_quote_64bit_integers = 0"
    return [
        tuple(json.loads(line)) for line in server.query(f"{sql} {settings} FORMAT JSONCompactEachRow").splitlines()
    ]


def _card_tick(tick: Tick, card: CardReading) -> Row:
    return (
        *_span(tick, card),
        ratio(card.utilization),
        ratio(card.utilization_max),
        card.utilization_coverage_ms,
        card.memory_used_bytes,
        card.memory_limit_bytes,
        card.memory_reserved_bytes,
        None if card.power_watts is None else round(card.power_watts * 1000),
        card.energy_total_mj,
        card.energy_mj,
        None if card.failed is None else int(card.failed),
        card.process_list.value,
        tick.origin.interval_ms,
    )


def _process_tick(tick: Tick, card: CardReading, process: ProcessReading) -> Row:
    return (
        *_process(tick, card, process),
        process.gpu_time_ms,
        process.memory_bytes,
        ratio(process.utilization),
        process.owner,
        process.comm,
        process.uid,
    )


def _card_state(tick: Tick, card: CardReading) -> Row:
    return (*_span(tick, card), classify(card_facts(card), Rules()).state.value)


def _process_state(tick: Tick, card: CardReading, process: ProcessReading) -> Row:
    state = process_state(ratio(process.utilization), Rules())
    return (*_process(tick, card, process), process.memory_bytes, state.value)


def _span(tick: Tick, card: CardReading) -> Row:
    return (tick.origin.host, card.uuid, tick.ts_ms, card.duration_ms, card.gpu_time_ms)


def _process(tick: Tick, card: CardReading, process: ProcessReading) -> Row:
    return (tick.origin.host, card.uuid, tick.ts_ms, process.pid, process.created_ms or 0, card.duration_ms)


def _sums(cards: Iterable[tuple[Tick, CardReading]]) -> Iterable[Row]:
    sums: dict[tuple[str, str], list[int]] = {}
    for tick, card in cards:
        so_far = sums.setdefault((tick.origin.host, card.uuid), [0, 0, 0])
        so_far[0] += 1
        so_far[1] += card.duration_ms
        so_far[2] += card.gpu_time_ms
    return [(*key, *so_far) for key, so_far in sums.items()]


def _reported(cards: Iterable[tuple[Tick, CardReading]]) -> Iterable[Row]:
    """Return each card's ticks and GPU time by state as the report has them, and how many there are in all."""
    sums: dict[tuple[str, str, str], list[int]] = {}
    total = 0
    for tick, card in cards:
        state = classify(card_facts(card), Rules()).state.value
        so_far = sums.setdefault((tick.origin.host, card.uuid, state), [0, 0])
        so_far[0] += 1
        so_far[1] += card.gpu_time_ms
        total += 1
    return [
        ("headline", total),
        *((*key, card_ticks, _hours(gpu_ms)) for key, (card_ticks, gpu_ms) in sums.items()),
    ]


def _report(server: ClickHouseServer, gua: Gua) -> Iterable[Row]:
    report = gua.report(server.dsn("gua_reader"))
    yield ("headline", report["headline"]["card_ticks"])
    for card in report["cards"]:
        for state, share in card["states"].items():
            if share["card_ticks"]:
                yield (card["host"], card["gpu"], state, share["card_ticks"], share["gpu_hours"])


def _hours(ms: int) -> float:
    """Return hours as the report rounds them."""
    return round(ms / 3_600_000, 6)
