"""Reader of OTLP JSON lines files, as a Collector's file exporter writes them."""

from __future__ import annotations

import json
import stat
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint, ResourceMetrics

from gua.core import metrics
from gua.core.errors import DataError, UnavailableError, UsageError
from gua.core.tick import Tick
from gua.core.untrusted import object_in, objects_in
from gua.otlp.decode import make_tick

_LONGEST_LINE: Final = 64 * 2**20
_NO_RECORDED_VALUE: Final = 1
Json = dict[str, Any]


def check_lines(path: Path, cut: list[str]) -> int:
    """Return the number of lines with points of gua. Raises the errors of :func:`ticks_of_lines`.

    Points are validated only when their tick is built. A truncated last line is skipped, here and there; its position
    is appended to ``cut``.
    """
    return sum(any(map(_scopes, objects_in(line.get("resourceMetrics")))) for _, line in _lines(path, cut))


def ticks_of_lines(path: Path) -> Iterator[Tick]:
    """Yield the ticks of a file in its order; other tools' metrics are skipped.

    A Collector may put several ticks into one line, but never splits one: each timestamp of a resource is a tick.
    Raises UsageError if the file does not exist, UnavailableError if it is unreadable, DataError if it is not OTLP.
    """
    for where, line in _lines(path, []):
        for resource in objects_in(line.get("resourceMetrics")):
            for request in _requests(resource, where):
                try:
                    yield make_tick(request)
                except DataError as error:
                    msg = f"{where}: {error}: what came before it is imported, correct the line and import it again"
                    raise DataError(msg) from None


def _lines(path: Path, cut: list[str]) -> Iterator[tuple[str, Json]]:
    number = 0
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            msg = f"{path} is not a regular file: it is read twice, so write the Collector's output to a file first"
            raise UsageError(msg)
        with path.open("rb") as file:
            while raw := file.readline(_LONGEST_LINE):
                number += 1
                where = f"{path}:{number}"
                try:
                    line = _parsed(raw, where) if raw.strip() else None
                except DataError:
                    if number == 1 or raw.endswith(b"\n") or len(raw) == _LONGEST_LINE:
                        raise
                    cut.append(where)
                    return
                if line is not None:
                    yield where, line
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist: give a file that a Collector's file exporter wrote") from None
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror or error}: check the file and its permissions"
        raise UnavailableError(msg) from None
    if not number:
        raise DataError(f"{path} is empty: give a file that a Collector's file exporter wrote")


def _parsed(raw: bytes, where: str) -> Json:
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        msg = f"{where}: the line is no JSON: the file exporter writes it with format: json and no compression"
        raise DataError(msg) from None
    if not isinstance(line, dict) or not line.keys() & {"resourceMetrics", "resourceLogs", "resourceSpans"}:
        raise DataError(f"{where}: the line is no OTLP: it has no resourceMetrics")
    return line


def _scopes(resource: Json) -> list[Json]:
    return [
        scope
        for scope in objects_in(resource.get("scopeMetrics"))
        if object_in(scope.get("scope")).get("name") == metrics.SCOPE
    ]


def _requests(resource: Json, where: str) -> Iterator[ExportMetricsServiceRequest]:
    """Yield one request per timestamp of a resource, reduced to what :func:`make_tick` reads."""
    try:
        parsed = json_format.ParseDict(
            {"resource": resource.get("resource") or {}, "scopeMetrics": _scopes(resource)},
            ResourceMetrics(),
            ignore_unknown_fields=True,
        )
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError, json_format.ParseError) as error:
        raise DataError(
            f"{where}: the line is no OTLP: {error!r}: what came before it is imported, correct it and import it again"
        ) from None
    by_time: defaultdict[int, defaultdict[tuple[str, str], list[NumberDataPoint]]]
    by_time = defaultdict(lambda: defaultdict(list))
    for scope in parsed.scope_metrics:
        for metric in scope.metrics:
            kind = "sum" if metric.HasField("sum") else "gauge"
            for point in getattr(metric, kind).data_points:
                if point.flags & _NO_RECORDED_VALUE == 0:
                    by_time[point.time_unix_nano][metric.name, kind].append(point)
    for _, of_metric in sorted(by_time.items()):
        request = ExportMetricsServiceRequest()
        made = request.resource_metrics.add(resource=parsed.resource)
        scope_metrics = made.scope_metrics.add()
        scope_metrics.scope.name = metrics.SCOPE
        for (name, kind), points in of_metric.items():
            metric = scope_metrics.metrics.add(name=name)
            getattr(metric, kind).data_points.extend(points)
        yield request
