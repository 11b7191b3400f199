"""``gua import otlp-json``: what a Collector's file exporter wrote is the ticks that were sent."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from gua.core.errors import DataError, GuaError, UsageError
from gua.core.tick import AgentReading, CardReading, Origin, ProcessReading, Tick
from gua.core.words import Mig, ProcessList, Source
from gua.otlp.decode import check_lines, ticks_of_lines
from gua.otlp.encode import encode


def tick(ts_ms: int, host: str = "node-1", power_watts: float | None = None) -> Tick:
    return Tick(
        ts_ms=ts_ms,
        origin=Origin(host=host, source=Source.AGENT, interval_ms=30_000, attributes=(("team", "vision"),)),
        cards=(
            CardReading(
                uuid="GPU-a",
                duration_ms=30_000,
                gpu_time_ms=30_000,
                process_list=ProcessList.KNOWN,
                utilization=0.0,
                memory_used_bytes=2**40,
                processes=(ProcessReading(pid=7, created_ms=1_700_000_000_123, owner="alice", gpu_time_ms=30_000),),
                power_watts=power_watts,
            ),
        ),
        agent=AgentReading(started_ms=1_700_000_000_000, spool_ticks=0),
    )


def as_json(*ticks: Tick) -> dict[str, Any]:
    """Return what a Collector writes of these ticks that came within one batch."""
    lines = [json_format.MessageToDict(ExportMetricsServiceRequest.FromString(encode(one))) for one in ticks]
    return {"resourceMetrics": [resource for line in lines for resource in line["resourceMetrics"]]}


def written(path: Path, *lines: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


SENT = [tick(1_772_442_000_250), tick(1_772_442_030_250, power_watts=71.5), tick(1_772_442_030_250, "node-2")]


# With all that is printed in words.
WITH_WORDS = replace(
    SENT[0],
    origin=replace(SENT[0].origin, service_version="1.0"),
    cards=tuple(
        replace(
            card,
            index=0,
            name="H100",
            mig=Mig.NONE,
            memory_shared=False,
            processes=tuple(replace(process, uid=1000, comm="python") for process in card.processes),
        )
        for card in SENT[0].cards
    ),
)


def test_lines_are_the_ticks_that_were_sent(tmp_path: Path) -> None:
    path = written(tmp_path / "metrics.json", as_json(SENT[0]), as_json(*SENT[1:]))
    assert check_lines(path, []) == 2
    assert list(ticks_of_lines(path)) == SENT


def test_ticks_of_one_host_in_one_resource_are_separated_by_time(tmp_path: Path) -> None:
    line = as_json(*SENT[:2])
    first, second = line["resourceMetrics"]
    first["scopeMetrics"] += second["scopeMetrics"]
    path = written(tmp_path / "metrics.json", {"resourceMetrics": [first]})
    assert list(ticks_of_lines(path)) == SENT[:2]


def test_metrics_of_other_tools_are_left_out(tmp_path: Path) -> None:
    other = {
        "resource": {},
        "scopeMetrics": [{"scope": {"name": "hostmetrics"}, "metrics": [{"name": "x", "gauge": {}}]}],
    }
    path = written(
        tmp_path / "metrics.json",
        {"resourceMetrics": [other, *as_json(SENT[0])["resourceMetrics"]]},
        {"resourceLogs": []},
    )
    assert list(ticks_of_lines(path)) == SENT[:1]
    assert check_lines(written(tmp_path / "other.json", {"resourceMetrics": [other]}), []) == 0


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b"\x28\xb5\x2f\xfd\x00", "the line is no JSON"),
        (b'{"resourceMetrics": [', "the line is no JSON"),
        (b"[" * 100_000, "the line is no JSON"),
        (b"{}", "it has no resourceMetrics"),
        (b'["resourceMetrics"]', "it has no resourceMetrics"),
    ],
)
def test_what_is_no_otlp_is_refused_before_anything_is_delivered(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "metrics.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=why):
        check_lines(path, [])


def test_a_last_line_that_was_cut_off_is_named_and_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "metrics.json", as_json(SENT[0]), as_json(SENT[1]))
    whole = path.read_bytes()
    second = whole.index(b"\n") + 1
    for end in range(second + 1, len(whole) - 1, 97):
        path.write_bytes(whole[:end])
        cut: list[str] = []
        assert check_lines(path, cut) == 1
        assert cut == [f"{path}:2"]
        assert list(ticks_of_lines(path)) == SENT[:1]
    path.write_bytes(whole[:-1])
    assert check_lines(path, cut := []) == 2
    assert cut == []


def test_a_folder_or_a_pipe_that_could_not_be_read_twice_is_wrong_usage(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(UsageError, match="not a regular file"):
            check_lines(path, [])


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        check_lines(tmp_path / "metrics.json", [])


def put(line: dict[str, Any], where: str, key: str, value: object) -> dict[str, Any]:
    """Return a line in which an attribute has another value, or the resource one more."""
    resource = line["resourceMetrics"][0]
    points = [
        point["attributes"]
        for scope in resource["scopeMetrics"]
        for metric in scope["metrics"]
        for point in (metric.get("sum") or metric["gauge"])["dataPoints"]
        if "attributes" in point
    ]
    attributes = [resource["resource"]["attributes"]] if where == "resource" else points
    for each in attributes:
        for pair in each:
            if pair["key"] == key:
                pair["value"] = value
    return line


@pytest.mark.parametrize(
    ("where", "key", "value"),
    [
        *(
            ("resource", "host.name", value)
            for value in ({"intValue": "5"}, {"boolValue": True}, {"arrayValue": {}}, {})
        ),
        *(("resource", "gua.sample.interval", value) for value in ({"stringValue": "30"}, {"doubleValue": "Infinity"})),
        ("resource", "gua.source", {"stringValue": "dream"}),
        ("resource", "service.name", {"doubleValue": 1.5}),
        ("resource", "service.version", {"boolValue": False}),
        *(("point", "hw.id", value) for value in ({"intValue": "5"}, {"stringValue": ""}, {"kvlistValue": {}})),
        *(
            ("point", "process.pid", value)
            for value in ({"stringValue": "7"}, {"boolValue": True}, {"doubleValue": 7.5})
        ),
        *(
            ("point", "process.creation.time", value)
            for value in ({"intValue": "7"}, {"stringValue": "9999-12-31T23:59:59-23:00"})
        ),
        ("point", "process.owner", {"intValue": "1000"}),
        ("point", "gua.process.comm", {"doubleValue": 1}),
        ("point", "process.user.id", {"stringValue": "1000"}),
        ("point", "hw.name", {"intValue": "100"}),
        ("point", "gua.gpu.index", {"stringValue": "0"}),
        ("point", "gua.gpu.mig", {"intValue": "1"}),
        ("point", "gua.gpu.memory.shared", {"intValue": "1"}),
    ],
)
def test_a_value_of_another_type_is_named_by_its_line(tmp_path: Path, where: str, key: str, value: object) -> None:
    path = written(tmp_path / "metrics.json", as_json(WITH_WORDS), put(as_json(WITH_WORDS), where, key, value))
    found = ticks_of_lines(path)
    assert next(found) == WITH_WORDS
    with pytest.raises(DataError, match=r"metrics\.json:2: "):
        next(found)


@pytest.mark.parametrize(
    "line",
    [{"resourceMetrics": value} for value in (None, 1, "x", {}, [1], [{"resource": 5}], [{"scopeMetrics": {"a": 1}}])],
)
def test_a_line_of_other_types_has_no_tick(tmp_path: Path, line: dict[str, Any]) -> None:
    path = written(tmp_path / "metrics.json", line)
    assert check_lines(path, []) == 0


@pytest.mark.parametrize("damage", ["timeUnixNano", "asDouble", "attributes", "flags"])
def test_points_that_make_no_sense_are_named_by_their_line(tmp_path: Path, damage: str) -> None:
    line = as_json(SENT[0])
    metric = line["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]
    point = (metric.get("sum") or metric["gauge"])["dataPoints"][0]
    point.pop("asInt", None)
    point[damage] = "nonsense"
    path = written(tmp_path / "metrics.json", as_json(SENT[1]), line)
    assert check_lines(path, []) == 2
    with pytest.raises(GuaError, match=r"metrics\.json:2: the line is no OTLP"):
        list(ticks_of_lines(path))
