"""Instruments on readings of one's choice, with the real SDK."""

from __future__ import annotations

import gc
import logging
import threading
import tracemalloc
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider, ObservableCounter
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader

from gua.core.tick import CardReading, Origin, ProcessReading, Tick
from gua.core.words import ProcessList, Source
from gua.instrumentation import GpuInstrumentor, instruments, readings
from gua.instrumentation.options import Scope
from gua.instrumentation.readings import Reading

CARD = "GPU-1"
Points = dict[str, list[tuple[dict[str, Any], float]]]


class Driver:
    """Readings that a test composes; ``act`` runs in the middle of each."""

    def __init__(self) -> None:
        self.cards = SimpleNamespace(is_open=False, close=self.close)
        self.reads = self.closed = 0
        self.scopes: list[Scope] = []
        self.here: list[CardReading] = [card()]
        self.pids: frozenset[int] | None = None
        self.act: Callable[[], object] = lambda: None

    def open(self, scope: Scope, *, inherited: bool = False) -> Driver:
        assert not inherited
        self.scopes.append(scope)
        return self

    def read(self) -> Reading:
        self.reads += 1
        self.act()
        origin = Origin(host="host", source=Source.PROGRAM, interval_ms=1000)
        return (Tick(ts_ms=self.reads * 1000, origin=origin, cards=tuple(self.here)), self.pids)

    def close(self) -> None:
        self.closed += 1


def card(*processes: ProcessReading, uuid: str = CARD, **values: Any) -> CardReading:  # noqa: ANN401 - a reading's
    base = {"duration_ms": 1000, "gpu_time_ms": 1000, "process_list": ProcessList.KNOWN, "utilization": 0.5}
    return CardReading(uuid=uuid, processes=processes, **{**base, **values})


def process(pid: int, created_ms: int = 1, **values: Any) -> ProcessReading:  # noqa: ANN401 - as above
    return ProcessReading(pid=pid, created_ms=created_ms, memory_bytes=pid, gpu_time_ms=10, **values)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(readings, "Readings", made.open)
    monkeypatch.setattr(readings, "_FRESH_SECONDS", 0)
    return made


def provider(*, delta: bool = False) -> tuple[MeterProvider, InMemoryMetricReader]:
    temporality = {ObservableCounter: AggregationTemporality.DELTA if delta else AggregationTemporality.CUMULATIVE}
    reader = InMemoryMetricReader(preferred_temporality=temporality)
    return MeterProvider(metric_readers=[reader]), reader


def collect(reader: InMemoryMetricReader) -> Points:
    """Return the attributes and values of a collection by metric; fail if one point is of the overflow set."""
    points: Points = {}
    data = reader.get_metrics_data()
    for resource in [] if data is None else data.resource_metrics:
        for scope in resource.scope_metrics:
            assert scope.scope.name == "gua"
            for metric in scope.metrics:
                found = [(dict(point.attributes or {}), point.value) for point in metric.data.data_points]
                assert not any("otel.metric.overflow" in attributes for attributes, _ in found), metric.name
                points.setdefault(metric.name, []).extend(found)
    return points


def value(points: Points, name: str) -> float:
    ((_, number),) = points[name]
    return number


def pids(points: Points, name: str = "gua.process.info") -> list[int]:
    return sorted(attributes["process.pid"] for attributes, _ in points.get(name, []))


def settle() -> None:
    """Wait for the threads of the instrumentation."""
    for thread in threading.enumerate():
        if thread.name.startswith("gua-instrument"):
            thread.join()


def test_counters_count_from_the_first_report_of_a_card_on(instrumentor: GpuInstrumentor, driver: Driver) -> None:
    made, reader = provider()
    instrumentor.instrument(meter_provider=made)
    durations, energies = [], []
    for energy_mj in (5_000_000, 5_002_000, 5_003_000):
        driver.here = [card(energy_total_mj=energy_mj)]
        points = collect(reader)
        durations.append(value(points, "gua.gpu.sample.duration"))
        energies.append(value(points, "hw.energy"))
    assert durations == [0, 1, 2]
    assert energies == [0, 2, 3]


def test_a_delta_reader_gets_the_ticks_amounts(instrumentor: GpuInstrumentor, driver: Driver) -> None:
    made, reader = provider(delta=True)
    instrumentor.instrument(meter_provider=made)
    driver.here = [card(process(7))]
    seen = [collect(reader) for _ in range(4)]
    assert [value(points, "gua.gpu.time") for points in seen] == [0, 1, 1, 1]
    # A process is reported from its second reading on, with the amount of that tick.
    assert [points.get("gua.process.gpu.time", [])[0:1] for points in seen[:1]] == [[]]
    assert [value(points, "gua.process.gpu.time") for points in seen[1:]] == pytest.approx([0.01, 0.01, 0.01])


def test_an_unknown_value_has_no_point_and_zero_is_a_value(instrumentor: GpuInstrumentor, driver: Driver) -> None:
    made, reader = provider()
    instrumentor.instrument(meter_provider=made)
    driver.here = [card(utilization=None, power_watts=0.0)]
    points = collect(reader)
    assert "hw.gpu.utilization" not in points
    assert value(points, "hw.power") == 0


def test_processes_of_others_count_on_the_card_but_have_no_points(
    instrumentor: GpuInstrumentor, driver: Driver
) -> None:
    made, reader = provider()
    instrumentor.instrument(meter_provider=made)
    driver.here, driver.pids = [card(process(7), process(8))], frozenset({8})
    collect(reader)
    points = collect(reader)
    assert pids(points) == pids(points, "gua.process.gpu.memory.usage") == [8]
    counts = {attributes["gua.process.type"]: number for attributes, number in points["gua.gpu.processes"]}
    assert counts["compute"] == 2


def test_ten_thousand_short_processes_create_no_attribute_set_and_hide_nothing(
    instrumentor: GpuInstrumentor, driver: Driver
) -> None:
    made, reader = provider()
    instrumentor.instrument(meter_provider=made)
    lasting = process(1)
    for first in range(0, 10_000, 100):
        driver.here = [card(lasting, *(process(pid) for pid in range(first + 100, first + 200)))]
        points = collect(reader)
        if first:
            assert pids(points) == [1]
        if first == 2_000:
            tracemalloc.start()
    memory_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert memory_bytes < 8 * 2**20
    assert driver.reads == 100


def test_three_thousand_processes_of_three_readings_each_stay_within_the_sdks_limit(
    instrumentor: GpuInstrumentor, driver: Driver
) -> None:
    made, reader = provider(delta=True)
    instrumentor.instrument(meter_provider=made)
    reported: set[int] = set()
    for number in range(32):
        # Each process is in three readings: reported from the second on, or in the third where a batch is full.
        first = 100 * number
        driver.here = [card(process(1), *(process(pid) for pid in range(max(first - 200, 100), first + 100)))]
        points = collect(reader)
        settle()
        reported |= set(pids(points))
        assert number == 0 or 1 in pids(points)
    assert reported >= set(range(100, 3_000))


def test_more_processes_than_the_sdks_limit_are_all_reported(instrumentor: GpuInstrumentor, driver: Driver) -> None:
    made, reader = provider()
    instrumentor.instrument(meter_provider=made)
    driver.here = [card(*(process(pid) for pid in range(1, 2_101)))]
    for _ in range(4):
        points = collect(reader)
        settle()
    assert pids(points) == [*range(1, 2_101)]


def test_a_process_that_renames_itself_at_each_reading_is_reported(
    instrumentor: GpuInstrumentor, driver: Driver
) -> None:
    made, reader = provider()
    instrumentor.instrument(meter_provider=made)
    for number in range(4):
        driver.here = [card(process(7, comm=f"name {number}"))]
        points = collect(reader)
    assert [attributes["gua.process.comm"] for attributes, _ in points["gua.process.info"]] == ["name 3"]


def test_seven_hundred_cards_by_turns_stay_within_the_sdks_limit(instrumentor: GpuInstrumentor, driver: Driver) -> None:
    """Instances of MIG that are created and removed have new UUIDs."""
    made, reader = provider()
    instrumentor.instrument(meter_provider=made)
    for number in range(0, 700, 100):
        driver.here = [card(), *(card(uuid=f"MIG-{each}") for each in range(number, number + 100))]
        for _ in range(2):
            points = collect(reader)
            settle()
        assert len(points["hw.gpu.utilization"]) == 101


def test_one_reading_serves_all_instruments_and_providers_that_collect_together(
    instrumentor: GpuInstrumentor, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readings, "_FRESH_SECONDS", 60)
    (first, one), (second, other) = provider(), provider()
    instrumentor.instrument(meter_provider=first)
    instrumentor.instrument(meter_provider=second)
    collected: list[Points] = []
    driver.act = lambda: threading.Event().wait(0.05)
    threads = [threading.Thread(target=lambda each=each: collected.append(collect(each))) for each in (one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert driver.reads == 1
    assert collected[0] == collected[1] != {}
    monkeypatch.setattr(readings, "_FRESH_SECONDS", 0)
    collect(one)
    monkeypatch.setattr(readings, "_FRESH_SECONDS", 60)
    # Whoever collects that reading counts it once.
    assert [value(collect(each), "gua.gpu.time") for each in (one, one, other, other)] == [1] * 4


def test_a_slow_provider_exports_only_the_time_that_its_gauges_cover(
    instrumentor: GpuInstrumentor, driver: Driver
) -> None:
    (first, fast), (second, slow) = provider(delta=True), provider(delta=True)
    for made, reader in ((first, fast), (second, slow)):
        instrumentor.instrument(meter_provider=made)
        collect(reader)
    driver.here = [card(utilization=0.9)]
    for _ in range(5):
        points = collect(fast)
        assert value(points, "gua.gpu.sample.duration") == 1
    driver.here = [card(utilization=0.0)]
    for _ in range(2):
        points = collect(slow)
        assert value(points, "hw.gpu.utilization") == 0
        assert value(points, "gua.gpu.sample.duration") == value(points, "gua.gpu.time") == 1


def test_readers_of_several_threads_get_no_delta_sums_and_one_warning(
    instrumentor: GpuInstrumentor, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    fast, slow = InMemoryMetricReader(), InMemoryMetricReader()
    made = MeterProvider(metric_readers=[fast, slow])
    instrumentor.instrument(meter_provider=made)
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        for number in range(3):
            driver.here = [card(process(7), utilization=0.9, energy_total_mj=1000 * number)]
            points = one.submit(collect, fast).result()
        assert value(points, "gua.gpu.sample.duration") == 2
        driver.here = [card(process(7), utilization=0.0, energy_total_mj=4000)]
        late = other.submit(collect, slow).result()
        points = one.submit(collect, fast).result()
    for each in (points, late):
        assert not {"gua.gpu.sample.duration", "gua.gpu.time", "gua.process.gpu.time"} & each.keys()
        assert pids(each) == [7]
    assert value(late, "hw.gpu.utilization") == 0
    assert value(late, "hw.energy") == 4
    (record,) = caplog.records
    assert record.getMessage() == (
        "gua: no durations, GPU times and other delta sums: several threads collect from the MeterProvider. "
        "Give each reader its own"
    )


@pytest.mark.usefixtures("driver")
def test_a_flush_of_the_main_thread_leaves_the_sums_of_a_readers_thread(instrumentor: GpuInstrumentor) -> None:
    made, reader = provider()
    instrumentor.instrument(meter_provider=made)
    with ThreadPoolExecutor(1) as own:
        assert value(own.submit(collect, reader).result(), "gua.gpu.time") == 0
        assert value(collect(reader), "gua.gpu.time") == 1
        assert value(own.submit(collect, reader).result(), "gua.gpu.time") == 2


@pytest.mark.usefixtures("driver")
def test_a_provider_that_has_ended_leaves_nothing(instrumentor: GpuInstrumentor) -> None:
    ended = []
    for number in range(4):
        made, reader = provider()
        instrumentor.instrument(meter_provider=made)
        assert collect(reader)
        if number % 2:
            instrumentor.uninstrument()
        made.shutdown()
        ended.append(weakref.ref(made))
    del made, reader
    gc.collect()
    assert [one() for one in ended] == [None] * 4


def test_the_scope_may_change_once_all_providers_have_ended(instrumentor: GpuInstrumentor, driver: Driver) -> None:
    made, reader = provider()
    instrumentor.instrument(meter_provider=made)
    made.shutdown()
    del made, reader
    gc.collect()
    made, reader = provider()
    instrumentor.instrument(meter_provider=made, scope="host")
    assert collect(reader)
    assert driver.scopes == [Scope.PROCESS, Scope.HOST]
    assert driver.closed == 1


def test_after_uninstrument_only_providers_that_are_instrumented_again_report(
    instrumentor: GpuInstrumentor, driver: Driver
) -> None:
    (first, one), (second, other) = provider(), provider()
    instrumentor.instrument(meter_provider=first)
    collect(one)
    instrumentor.uninstrument()
    instrumentor.instrument(meter_provider=second)
    assert collect(other)
    assert collect(one) == {}
    assert driver.reads == 2


@pytest.mark.usefixtures("driver")
def test_instrumenting_a_provider_twice_changes_nothing_and_is_one_warning(
    instrumentor: GpuInstrumentor, caplog: pytest.LogCaptureFixture
) -> None:
    made, reader = provider()
    for _ in range(3):
        instrumentor.instrument(meter_provider=made)
    assert value(collect(reader), "hw.gpu.utilization") == 0.5
    assert [record.getMessage() for record in caplog.records] == [
        "gua: this MeterProvider is already instrumented: nothing changes"
    ]


def test_after_uninstrument_nothing_is_read_and_the_driver_is_closed(
    instrumentor: GpuInstrumentor, driver: Driver
) -> None:
    made, reader = provider()
    instrumentor.instrument(meter_provider=made)
    collect(reader)
    instrumentor.uninstrument()
    assert driver.closed == 1
    assert collect(reader) == {}
    assert driver.reads == 1
    instrumentor.instrument(meter_provider=made, scope="host")
    assert value(collect(reader), "gua.gpu.time") == 0
    assert value(collect(reader), "gua.gpu.time") == 1
    assert driver.scopes == [Scope.PROCESS, Scope.HOST]


@pytest.mark.usefixtures("driver")
def test_uninstrument_amid_a_collection_leaves_nothing_for_the_next(
    instrumentor: GpuInstrumentor, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, reader = provider()
    instrumentor.instrument(meter_provider=made)
    points = instruments.points

    def uninstrument_first(tick: Tick) -> object:
        instrumentor.uninstrument()
        return points(tick)

    monkeypatch.setattr(instruments, "points", uninstrument_first)
    collect(reader)
    assert collect(reader) == {}


def test_a_driver_that_hangs_costs_one_deadline_then_nothing_until_it_answers(
    instrumentor: GpuInstrumentor, driver: Driver, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readings, "DEADLINE_SECONDS", 0.05)
    made, reader = provider()
    instrumentor.instrument(meter_provider=made)
    assert collect(reader)
    hanging = threading.Event()
    driver.act = lambda: hanging.wait(60)
    for _ in range(20):
        assert collect(reader) == {}
    assert driver.reads == 2
    hanging.set()
    settle()
    # The time in which nothing answered is not counted.
    assert value(collect(reader), "gua.gpu.time") == 0
    assert value(collect(reader), "gua.gpu.time") == 1
    assert [record.getMessage() for record in caplog.records] == [
        "gua: no GPU metrics until the driver answers: the NVIDIA driver has not answered for 0.05 s"
    ]


def test_each_error_is_one_warning_and_never_the_programs(
    instrumentor: GpuInstrumentor, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    made, reader = provider()
    instrumentor.instrument(meter_provider=made)

    def fail() -> None:
        raise ZeroDivisionError("inside")

    driver.act = fail
    for _ in range(5):
        assert collect(reader) == {}
    assert [record.getMessage() for record in caplog.records] == [
        "gua: no GPU metrics: unexpected ZeroDivisionError('inside')"
    ]
    driver.act = lambda: None
    assert collect(reader)


@pytest.mark.usefixtures("driver")
def test_without_a_thread_nothing_is_reported_and_one_warning_says_so(
    instrumentor: GpuInstrumentor, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, one), (second, other) = provider(), provider()
    for made, reader in ((first, one), (second, other)):
        instrumentor.instrument(meter_provider=made)
        assert collect(reader)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        assert [collect(one) for _ in range(2)] == [{}] * 2
    assert [record.getMessage() for record in caplog.records] == [
        """gua: no GPU metrics: unexpected RuntimeError("can't start new thread")"""
    ]
    # The time in which nothing could be read is not counted, of the other provider neither.
    assert [value(collect(each), "gua.gpu.time") for each in (other, one, other, one)] == [0, 0, 1, 1]


def test_without_a_thread_for_more_instruments_the_first_thousand_processes_are_reported(
    instrumentor: GpuInstrumentor, driver: Driver, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, reader = provider()
    instrumentor.instrument(meter_provider=made)
    driver.here = [card(*(process(pid) for pid in range(1, 1_101)))]
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "gua-instruments":
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        assert [len(pids(collect(reader))) for _ in range(3)] == [0, 1_000, 1_000]
    assert len(caplog.records) == 1
    collect(reader)
    settle()
    assert len(pids(collect(reader))) == 1_100


def test_a_reading_that_cannot_be_reported_leaves_no_old_one(
    instrumentor: GpuInstrumentor, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    made, reader = provider()
    instrumentor.instrument(meter_provider=made)
    assert collect(reader)
    driver.here = [card(utilization="much")]
    assert collect(reader) == collect(reader) == {}
    assert len(caplog.records) == 1


@pytest.mark.usefixtures("driver")
def test_a_provider_that_is_shut_down_or_is_none_at_all_is_a_warning_at_most(
    instrumentor: GpuInstrumentor, caplog: pytest.LogCaptureFixture
) -> None:
    made, _ = provider()
    made.shutdown()
    instrumentor.instrument(meter_provider=made)
    instrumentor.instrument(meter_provider="nonsense")
    messages = [record.getMessage() for record in caplog.records if record.name == "gua.instrumentation"]
    assert messages == [
        """gua: no GPU metrics: unexpected AttributeError("'str' object has no attribute 'get_meter'")"""
    ]


@pytest.mark.parametrize(
    ("variables", "options", "scope", "warnings"),
    [
        ({}, {}, Scope.PROCESS, []),
        ({"GUA_INSTRUMENT_SCOPE": "host"}, {}, Scope.HOST, []),
        ({"GUA_INSTRUMENT_SCOPE": "host"}, {"scope": "process"}, Scope.PROCESS, []),
        ({}, {"scope": "host"}, Scope.HOST, []),
        (
            {"GUA_INSTRUMENT_SCOPE": "hots"},
            {},
            Scope.PROCESS,
            ["gua: GUA_INSTRUMENT_SCOPE is 'hots', not process or host: process is used"],
        ),
        (
            {"GUA_INSTRUMENT_SCOP": "host"},
            {},
            Scope.PROCESS,
            ["gua: unknown variable 'GUA_INSTRUMENT_SCOP' is ignored: use GUA_INSTRUMENT_SCOPE"],
        ),
        ({}, {"scope": 7}, Scope.PROCESS, ["gua: scope is '7', not process or host: process is used"]),
        (
            {},
            {"scpoe": "host"},
            Scope.PROCESS,
            ["gua: unknown option 'scpoe' is ignored: use meter_provider or scope"],
        ),
    ],
)
def test_a_wrong_option_is_one_line(
    instrumentor: GpuInstrumentor,
    driver: Driver,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    options: dict[str, Any],
    scope: Scope,
    warnings: Sequence[str],
) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    made, _ = provider()
    instrumentor.instrument(meter_provider=made, **options)
    assert driver.scopes == [scope]
    assert [record.getMessage() for record in caplog.records] == warnings
    assert all(record.levelno == logging.WARNING for record in caplog.records)


def test_the_limits_of_a_batch_leave_room_below_the_sdks_default() -> None:
    assert all(limit <= 1_000 for limit in instruments.MOST_MEMBERS.values())
