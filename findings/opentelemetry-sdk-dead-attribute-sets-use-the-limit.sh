#!/usr/bin/env bash
# opentelemetry-sdk 1.45.2, 2026-11-28.
# The cardinality limit of 2,000 counts the attribute sets of an asynchronous instrument over its whole life, although an
# observable gauge that no longer observes a set no longer exports it. A gauge with one live process at a time, with its
# pid as attribute, therefore exports {"otel.metric.overflow": true} instead of the pid from the 2,001st process on.
# One guesses that only the sets of the current collection count, as for synchronous instruments of delta readers.
# Deltas do not change it. Creating the instrument again returns the existing one; another scope's starts from nothing.
# Seen: process 2000: {'process.pid': 2000}; process 2001: {'otel.metric.overflow': True}; of a new scope: {'process.pid': 2002}
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check opentelemetry-sdk==1.45.2
"$folder/venv/bin/python" - <<'PY'
import sys

from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

reader = InMemoryMetricReader()
provider = MeterProvider(metric_readers=[reader])
pid = 0


def observe(options):
    return [Observation(1, {"process.pid": pid})]


def exported():
    """Return the attributes of the points of one collection, of each scope."""
    scopes = reader.get_metrics_data().resource_metrics[0].scope_metrics
    return [[dict(point.attributes) for point in scope.metrics[0].data.data_points] for scope in scopes]


provider.get_meter("first").create_observable_gauge("memory", [observe])
seen = {}
for pid in range(1, 2_002):
    seen[pid] = exported()
pid = 2_002
provider.get_meter("second").create_observable_gauge("memory", [observe])
first, second = exported()
print("process 2000:", seen[2_000][0], "process 2001:", seen[2_001][0], "of a new scope:", second)
overflow = {"otel.metric.overflow": True}
sys.exit(not (seen[2_000] == [[{"process.pid": 2_000}]] and seen[2_001] == [[overflow]] and first == [overflow]
              and second == [{"process.pid": 2_002}]))
PY
