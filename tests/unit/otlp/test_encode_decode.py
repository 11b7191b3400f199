from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from gua.core import metrics
from gua.core.errors import DataError
from gua.core.plaintext import MOST_CHARACTERS
from gua.core.tick import (
    AgentReading,
    AllocationReading,
    AllocationSourceReading,
    CardReading,
    ErrorCount,
    Origin,
    ProcessReading,
    Tick,
)
from gua.core.words import AllocationStatus, Mig, ProcessList, ProcessType, Relation, Source
from gua.otlp.decode import decode
from gua.otlp.encode import encode

GOLDEN = Path(__file__).parents[2] / "golden" / "tick.jsonl"

TS_MS = 1_774_413_000_000
ORIGIN = Origin(
    host="node-1",
    source=Source.AGENT,
    interval_ms=30_000,
    instance_id="11111111-2222-3333-4444-555555555555",
    service_version="0.1.0",
    attributes=(("k8s.node.name", "node-1"),),
)
HELD = CardReading(
    uuid="GPU-8f1c",
    duration_ms=30_000,
    gpu_time_ms=30_000,
    process_list=ProcessList.KNOWN,
    index=0,
    name="NVIDIA H100 80GB HBM3",
    model="H100",
    vendor="NVIDIA",
    driver_version="580.95.05",
    pci="0000:0F:00.0",
    mig=Mig.NONE,
    memory_shared=False,
    utilization=0.0,
    utilization_encoder=0.0,
    utilization_max=0.04,
    utilization_coverage_ms=29_500,
    idle_time_ms=12_000,
    idle_energy_mj=1_080_000,
    idle_energy_coverage_ms=9_000,
    clock_reasons=4,
    xid_errors=1,
    ecc_errors=0,
    xid=31,
    row_remap=0,
    recovery_action=0,
    sm_utilization=0.03,
    sm_occupancy=0.125,
    tensor_utilization=0.0,
    memory_bandwidth_utilization=0.41,
    memory_used_bytes=8 * 2**30,
    memory_limit_bytes=80 * 2**30,
    memory_reserved_bytes=600 * 2**20,
    power_watts=121.7,
    temperature_celsius=41.0,
    energy_total_mj=123_456_789,
    energy_mj=3_651_000,
    failed=False,
    processes=(
        ProcessReading(
            pid=4711,
            created_ms=TS_MS - 3_600_043,
            owner="ada",
            uid=1000,
            comm="python",
            memory_bytes=8 * 2**30,
            utilization=0.0,
            gpu_time_ms=30_000,
            slurm_job_id="77",
        ),
        ProcessReading(pid=99, type=ProcessType.IGNORED, owner="root", uid=0, comm="Xorg"),
    ),
)
BARE = CardReading(uuid="MIG-0a", duration_ms=30_000, gpu_time_ms=4_286, mig=Mig.INSTANCE, parent="GPU-8f1c")
SMALL = Tick(
    ts_ms=TS_MS,
    origin=ORIGIN,
    cards=(HELD, BARE),
    agent=AgentReading(
        started_ms=TS_MS - 60_000,
        dropped_ticks=0,
        errors=(ErrorCount(call="nvmlDeviceGetPowerUsage", code="3", count=2),),
    ),
)

ratios = st.none() | st.floats(0, 1)
amounts = st.none() | st.just(0) | st.integers(0, 2**63 - 1)
millis = st.none() | st.just(0) | st.integers(0, 2**50)
texts = st.none() | st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=12)
uuids = st.sampled_from(("GPU-1", "GPU-2", "MIG-3", "MIG-GPU-1/1/0", "карта"))
processes = st.builds(
    ProcessReading,
    pid=st.integers(0, 2**22),
    type=st.sampled_from(ProcessType),
    created_ms=st.none() | st.integers(0, 4_102_444_800_000),
    owner=texts,
    uid=st.none() | st.integers(0, 2**32 - 1),
    comm=texts,
    memory_bytes=amounts,
    utilization=ratios,
    gpu_time_ms=millis,
    container_id=texts,
    pod_uid=texts,
    slurm_job_id=texts,
    systemd_unit=texts,
)
known_texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), min_size=1, max_size=12)
moments = st.none() | st.integers(0, 4_102_444_800_000)
allocations = st.builds(
    AllocationReading,
    source=known_texts,
    id=known_texts,
    relation=st.sampled_from(Relation),
    duration_ms=st.integers(0, 600_000),
    gpu_time_ms=st.integers(0, 600_000),
    since_ms=moments,
    until_ms=moments,
    owner=texts,
    uid=st.none() | st.integers(0, 2**32 - 1),
    kind=texts,
    job_name=texts,
    pod_uid=texts,
    pod_name=texts,
    pod_namespace=texts,
)
sources = st.builds(
    AllocationSourceReading,
    source=known_texts,
    duration_ms=st.integers(0, 600_000),
    reason=texts,
    waiting=st.none() | st.integers(0, 10_000),
    wait_ms=st.none() | st.integers(0, 10**10),
    waited_ms=st.none() | st.integers(0, 600_000),
)
spans = st.integers(1, 600_000).flatmap(lambda span: st.tuples(st.just(span), st.integers(0, span)))
cards = st.builds(
    lambda span, **rest: CardReading(duration_ms=span[0], gpu_time_ms=span[1], **rest),
    spans,
    uuid=uuids,
    process_list=st.sampled_from(ProcessList),
    index=st.none() | st.integers(0, 64),
    name=texts,
    model=texts,
    vendor=texts,
    driver_version=texts,
    pci=texts,
    mig=st.none() | st.sampled_from(Mig),
    parent=texts,
    memory_shared=st.none() | st.booleans(),
    utilization=ratios,
    utilization_encoder=ratios,
    utilization_decoder=ratios,
    utilization_max=ratios,
    utilization_coverage_ms=millis,
    idle_time_ms=millis,
    idle_energy_mj=millis,
    idle_energy_coverage_ms=millis,
    clock_reasons=amounts,
    xid_errors=amounts,
    ecc_errors=amounts,
    xid=amounts,
    row_remap=amounts,
    recovery_action=amounts,
    sm_utilization=ratios,
    sm_occupancy=ratios,
    tensor_utilization=ratios,
    memory_bandwidth_utilization=ratios,
    memory_used_bytes=amounts,
    memory_limit_bytes=amounts,
    memory_reserved_bytes=amounts,
    power_watts=st.none() | st.floats(0, 2000),
    temperature_celsius=st.none() | st.floats(-60, 200),
    energy_total_mj=millis,
    energy_mj=millis,
    failed=st.none() | st.booleans(),
    allocation=st.none() | st.sampled_from(AllocationStatus),
    unallocated_gpu_time_ms=millis,
    processes=st.lists(processes, max_size=4, unique_by=lambda process: process.pid).map(tuple),
    allocations=st.lists(allocations, max_size=3, unique_by=lambda each: (each.source, each.id)).map(tuple),
)
agents = st.builds(
    AgentReading,
    started_ms=st.integers(0, TS_MS),
    tick_duration_seconds=st.none() | st.floats(0, 600),
    tick_lateness_seconds=st.none() | st.floats(0, 600),
    spool_ticks=amounts,
    spool_bytes=amounts,
    dropped_ticks=st.integers(0, 2**40),  # an agent without any known value has no point at all
    errors=st.lists(
        st.builds(ErrorCount, call=texts.map(str), code=texts.map(str), count=st.integers(0, 2**40)), max_size=3
    ).map(tuple),
)
origins = st.builds(
    Origin,
    host=known_texts,
    source=st.sampled_from(Source),
    interval_ms=st.integers(1_000, 600_000),
    host_id=st.none() | known_texts,
    instance_id=st.none() | known_texts,
    service_name=known_texts,
    service_version=st.none() | known_texts,
    attributes=st.dictionaries(
        st.sampled_from(("k8s.node.name", "deployment", "команда")), st.text("aé,=%", max_size=5)
    ).map(lambda pairs: tuple(sorted(pairs.items()))),
)
ticks = st.builds(
    Tick,
    ts_ms=st.integers(TS_MS, TS_MS + 10**11),
    origin=origins,
    cards=st.lists(cards, min_size=1, max_size=4, unique_by=lambda card: card.uuid).map(tuple),
    agent=st.none() | agents,
    allocation_sources=st.lists(sources, max_size=3, unique_by=lambda source: source.source).map(tuple),
)


def parsed(tick: Tick) -> ExportMetricsServiceRequest:
    return ExportMetricsServiceRequest.FromString(encode(tick))


def test_a_card_with_changing_known_values_is_encoded_correctly_each_time() -> None:
    """Attributes are kept from tick to tick; what a card lacks or cannot send has no point."""
    lacking = [
        replace(HELD, **{name: value})
        for name in ("memory_used_bytes", "power_watts", "energy_mj", "utilization_max", "failed")
        for value in (None, *((2**63, 2**70) if name == "memory_used_bytes" else ()))
    ]
    not_finite = [replace(HELD, power_watts=value) for value in (float("nan"), float("inf"))]
    process, ignored = HELD.processes
    others = [
        replace(HELD, processes=(replace(process, memory_bytes=None), ignored)),
        replace(HELD, processes=(replace(process, utilization=None), ignored)),
        replace(HELD, processes=(replace(process, utilization=float("-inf")), ignored)),
        replace(HELD, processes=(ignored, process)),
        replace(HELD, processes=(replace(process, memory_bytes=2**62), replace(ignored, memory_bytes=2**62))),
        replace(HELD, processes=(replace(process, memory_bytes=2**62), replace(process, pid=1, memory_bytes=2**62))),
        replace(HELD, processes=()),
        replace(HELD, duration_ms=TS_MS),
        replace(HELD, process_list=ProcessList.FAILED),
    ]
    for card in (HELD, *lacking, HELD, *not_finite, *others, HELD):
        raw = encode(replace(SMALL, cards=(card,)))
        values = replace(
            card,
            memory_used_bytes=None if (card.memory_used_bytes or 0) >= 2**63 else card.memory_used_bytes,
            power_watts=None if card in not_finite else card.power_watts,
            processes=tuple(
                replace(each, utilization=None if each.utilization == float("-inf") else each.utilization)
                for each in card.processes
            ),
        )
        (decoded,) = decode(raw).cards
        assert decoded == values
        assert encode(replace(SMALL, cards=(card,))) == raw


def points_of(tick: Tick, name: str) -> list[object]:
    (scope_metrics,) = parsed(tick).resource_metrics[0].scope_metrics
    return [
        point
        for metric in scope_metrics.metrics
        if metric.name == name
        for point in (metric.sum if metric.HasField("sum") else metric.gauge).data_points
    ]


def attribute_of(point: object, key: str) -> object:
    return next(
        (getattr(pair.value, pair.value.WhichOneof("value")) for pair in point.attributes if pair.key == key), None
    )


@given(ticks)
@settings(max_examples=150, deadline=None)
def test_a_tick_comes_back_from_its_bytes_unchanged(tick: Tick) -> None:
    assert decode(encode(tick)) == tick


@given(ticks)
@settings(max_examples=50, deadline=None)
def test_every_point_has_the_tick_s_time_and_no_span_starts_after_it(tick: Tick) -> None:
    (scope_metrics,) = parsed(tick).resource_metrics[0].scope_metrics
    for metric in scope_metrics.metrics:
        for point in (metric.sum if metric.HasField("sum") else metric.gauge).data_points:
            assert point.time_unix_nano == tick.ts_ms * 10**6
            assert point.start_time_unix_nano <= point.time_unix_nano


def test_the_request_of_a_small_tick_is_the_golden_one() -> None:
    (resource_metrics,) = MessageToDict(parsed(SMALL))["resourceMetrics"]
    (scope_metrics,) = resource_metrics["scopeMetrics"]
    got = [resource_metrics["resource"], scope_metrics["scope"], *scope_metrics["metrics"]]
    if os.environ.get("GUA_UPDATE_GOLDEN"):
        GOLDEN.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in got))
    assert got == [json.loads(line) for line in GOLDEN.read_text().splitlines()]


def test_the_sdk_s_own_encoder_writes_the_same_messages() -> None:
    tick = Tick(
        ts_ms=TS_MS,
        origin=Origin(host="node-1", source=Source.IMPORT, interval_ms=30_000),
        cards=(
            CardReading(
                uuid="GPU-1", duration_ms=30_000, gpu_time_ms=30_000, memory_used_bytes=7, energy_total_mj=2_500
            ),
        ),
    )
    start, time = (TS_MS - 30_000) * 10**6, TS_MS * 10**6

    def point(value: float, start_ns: int | None, **attributes: object) -> NumberDataPoint:
        named = {"hw.id": "GPU-1", **{key.replace("_", "."): value for key, value in attributes.items()}}
        return NumberDataPoint(attributes=named, start_time_unix_nano=start_ns, time_unix_nano=time, value=value)

    def total(value: float, temporality: AggregationTemporality, *, monotonic: bool, **attributes: object) -> Sum:
        return Sum([point(value, start, **attributes)], temporality, is_monotonic=monotonic)

    delta, cumulative = AggregationTemporality.DELTA, AggregationTemporality.CUMULATIVE
    expected = encode_metrics(
        MetricsData(
            [
                ResourceMetrics(
                    Resource(
                        {
                            "service.name": "gua",
                            "host.name": "node-1",
                            "gua.sample.interval": 30.0,
                            "gua.source": "import",
                        }
                    ),
                    [
                        ScopeMetrics(
                            InstrumentationScope("gua"),
                            [
                                Metric("gua.gpu.sample.duration", "", "s", total(30.0, delta, monotonic=True)),
                                Metric("gua.gpu.time", "", "s", total(30.0, delta, monotonic=True)),
                                Metric("hw.gpu.memory.usage", "", "By", total(7, cumulative, monotonic=False)),
                                Metric("hw.energy", "", "J", total(2.5, cumulative, monotonic=True, hw_type="gpu")),
                                Metric(
                                    "gua.gpu.info",
                                    "",
                                    "{gpu}",
                                    Gauge([point(1, None, **{"gua.gpu.process.list": "absent"})]),
                                ),
                            ],
                            schema_url="",
                        )
                    ],
                    schema_url="",
                )
            ]
        )
    )
    assert parsed(tick) == expected


def test_an_unknown_value_has_no_point_and_zero_has_one() -> None:
    assert [attribute_of(point, "hw.gpu.task") for point in points_of(SMALL, "hw.gpu.utilization")] == [
        "general",
        "encoder",
    ]
    assert [point.as_double for point in points_of(SMALL, "hw.gpu.utilization")] == [0.0, 0.0]


def test_the_process_totals_of_all_types_are_sent_if_and_only_if_the_list_is_known() -> None:
    counts = points_of(SMALL, "gua.gpu.processes")
    assert {
        (attribute_of(point, "hw.id"), attribute_of(point, "gua.process.type"), point.as_int) for point in counts
    } == {
        ("GPU-8f1c", "compute", 1),
        ("GPU-8f1c", "graphics", 0),
        ("GPU-8f1c", "mps", 0),
        ("GPU-8f1c", "ignored", 1),
    }
    unknown = points_of(SMALL, "gua.gpu.process.memory.unknown")
    assert [point.as_int for point in unknown] == [0, 0, 0, 1]


def test_a_card_that_is_known_to_work_says_so_in_both_states() -> None:
    status = points_of(SMALL, "hw.status")
    assert [(attribute_of(point, "hw.state"), point.as_int) for point in status] == [("failed", 0), ("ok", 1)]


@pytest.mark.parametrize("power", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_is_not_sent(power: float) -> None:
    card = CardReading(uuid="GPU-1", duration_ms=1, gpu_time_ms=1, power_watts=power, memory_used_bytes=2**64 - 1)
    tick = Tick(ts_ms=TS_MS, origin=ORIGIN, cards=(card,))
    assert points_of(tick, "hw.power") == points_of(tick, "hw.gpu.memory.usage") == []


def test_names_that_no_receiver_could_store_are_mended() -> None:
    process = ProcessReading(pid=1, owner="\udcff", comm="a\x00b" + "x" * 1000, systemd_unit="")
    card = CardReading(uuid="GPU-1", duration_ms=1, gpu_time_ms=1, processes=(process,))
    (back,) = decode(encode(Tick(ts_ms=TS_MS, origin=ORIGIN, cards=(card,)))).cards[0].processes
    assert back.owner == "\ufffd"
    assert back.comm == "a\ufffdb" + "x" * (MOST_CHARACTERS - 3)
    assert back.systemd_unit == ""
    assert back.pod_uid is None


def test_ids_and_names_of_allocations_that_no_receiver_could_store_are_mended() -> None:
    allocation = AllocationReading(
        source="site",
        id="\udcff" + "7" * 1000,
        relation=Relation.NOBODY,
        duration_ms=1,
        gpu_time_ms=1,
        since_ms=-5,
        until_ms=10**18,
        owner="a\x00b",
        job_name="x" * 1000 + "\x1b[2J",
        pod_name="",
    )
    card = CardReading(uuid="GPU-1", duration_ms=1, gpu_time_ms=1, allocations=(allocation,))
    source = AllocationSourceReading(source="files", duration_ms=1, reason="\udc80 \x00")
    tick = decode(encode(Tick(ts_ms=TS_MS, origin=ORIGIN, cards=(card,), allocation_sources=(source,))))
    (back,) = tick.cards[0].allocations
    assert back.id == "\ufffd" + "7" * (MOST_CHARACTERS - 1)
    assert (back.owner, back.job_name, back.pod_name) == ("a\ufffdb", "x" * MOST_CHARACTERS, "")
    assert (back.since_ms, back.until_ms) == (None, None)
    assert tick.allocation_sources[0].reason == "\ufffd \ufffd"


def test_a_source_says_whether_it_could_be_read_in_words_too() -> None:
    sources_ = tuple(
        AllocationSourceReading(source=name, duration_ms=30_000, reason=reason)
        for name, reason in (("files", None), ("slurm", "no answer within 3 s"))
    )
    tick = Tick(ts_ms=TS_MS, origin=ORIGIN, cards=(HELD,), allocation_sources=sources_)
    points = points_of(tick, "gua.allocation.source.duration")
    assert [
        (attribute_of(point, "gua.allocation.source.status"), attribute_of(point, "gua.allocation.source.reason"))
        for point in points
    ] == [("ok", None), ("failed", "no answer within 3 s")]
    assert [point.as_double for point in points] == [30.0, 30.0]


def test_a_creation_time_is_encoded_to_the_millisecond_or_left_out() -> None:
    processes = tuple(
        ProcessReading(pid=pid, created_ms=created)
        for pid, created in enumerate((1_774_414_039_043, 1_774_414_039_000, None, -5, 10**18))
    )
    card = CardReading(uuid="GPU-1", duration_ms=1, gpu_time_ms=1, processes=processes)
    values = points_of(Tick(ts_ms=TS_MS, origin=ORIGIN, cards=(card,)), "gua.process.info")
    assert [attribute_of(point, "process.creation.time") for point in values] == [
        "2026-03-25T04:47:19.043Z",
        "2026-03-25T04:47:19.000Z",
        None,
        None,
        None,
    ]


def test_attributes_stand_in_the_order_of_the_catalogue() -> None:
    allocated = replace(
        HELD,
        allocations=(
            AllocationReading(
                source="slurm",
                id="77",
                relation=Relation.OWNER,
                duration_ms=30_000,
                gpu_time_ms=30_000,
                since_ms=TS_MS,
                until_ms=TS_MS,
                owner="ada",
                uid=1000,
                kind="job",
                job_name="train",
                pod_uid="6f1d",
                pod_name="train-0",
                pod_namespace="lab",
            ),
        ),
    )
    values = replace(
        SMALL,
        cards=(allocated, BARE),
        allocation_sources=(AllocationSourceReading(source="slurm", duration_ms=30_000, reason="no answer"),),
    )
    for metric in metrics.CATALOGUE:
        base = {
            "card": ("hw.id",),
            "process": metrics.PROCESS_ATTRIBUTES,
            "allocation": metrics.ALLOCATION_ATTRIBUTES,
            "allocation source": ("gua.allocation.source",),
            "agent": (),
        }
        order = [*base[metric.subject.value], *metric.attributes]
        for point in points_of(values, metric.name):
            keys = [pair.key for pair in point.attributes]
            assert keys == sorted(keys, key=order.index)


def test_metrics_of_a_later_version_and_of_other_scopes_are_left_out() -> None:
    request = parsed(SMALL)
    scope_metrics = request.resource_metrics[0].scope_metrics[0]
    scope_metrics.metrics.add(name="gua.gpu.fan").CopyFrom(scope_metrics.metrics[0])
    scope_metrics.metrics[-1].name = "gua.gpu.fan"
    request.resource_metrics[0].scope_metrics.add().CopyFrom(scope_metrics)
    request.resource_metrics[0].scope_metrics[1].scope.name = "other"
    assert decode(request.SerializeToString()) == SMALL


def test_attributes_of_another_type_are_refused() -> None:
    request = parsed(SMALL)
    for metric in request.resource_metrics[0].scope_metrics[0].metrics:
        for point in (metric.sum if metric.HasField("sum") else metric.gauge).data_points:
            for pair in point.attributes:
                if pair.key == "hw.id":
                    pair.value.int_value = 5
    with pytest.raises(DataError, match="uuid is 5"):
        decode(request.SerializeToString())


@pytest.mark.parametrize("data", [b"", b"\xff\xff", encode(SMALL) * 2, encode(SMALL)[:-3]])
def test_bytes_that_are_not_one_tick_are_refused(data: bytes) -> None:
    with pytest.raises(DataError):
        decode(data)
