"""``gua import otlp-json``: what a Collector's file exporter wrote is the ticks that were sent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from gua.core.errors import DataError, GuaError, UsageError
from gua.core.tick import (
    AgentReading,
    CardReading,
    Origin,
    ProcessList,
    ProcessReading,
    Source,
    Tick,
)
from gua.otlp.encode import encode
from gua.otlp.json_lines import check_lines, ticks_of_lines


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


def test_lines_are_the_ticks_that_were_sent(tmp_path: Path) -> None:
    path = written(tmp_path / "metrics.json", as_json(SENT[0]), as_json(*SENT[1:]))
    assert check_lines(path) == 2
    assert list(ticks_of_lines(path)) == SENT


def test_ticks_of_one_host_in_one_resource_are_told_apart_by_time(tmp_path: Path) -> None:
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
    assert check_lines(written(tmp_path / "other.json", {"resourceMetrics": [other]})) == 0


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
        check_lines(path)


def test_a_folder_or_a_pipe_that_could_not_be_read_twice_is_wrong_usage(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(UsageError, match="not a regular file"):
            check_lines(path)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        check_lines(tmp_path / "metrics.json")


@pytest.mark.parametrize("damage", ["timeUnixNano", "asDouble", "attributes", "flags"])
def test_points_that_make_no_sense_are_named_by_their_line(tmp_path: Path, damage: str) -> None:
    line = as_json(SENT[0])
    metric = line["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]
    point = (metric.get("sum") or metric["gauge"])["dataPoints"][0]
    point.pop("asInt", None)
    point[damage] = "nonsense"
    path = written(tmp_path / "metrics.json", as_json(SENT[1]), line)
    assert check_lines(path) == 2
    with pytest.raises(GuaError, match=r"metrics\.json:2: the line is no OTLP"):
        list(ticks_of_lines(path))
