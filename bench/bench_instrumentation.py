"""What the instrumentation costs a program: its import, one collection of 8 cards, and attribute sets of processes.

Run: python bench/bench_instrumentation.py. The driver is the simulated one (needs cc).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from measures.figures import additions_ms, machine, middle, show, title  # noqa: E402 - found through the line above

from driver.build import build  # noqa: E402 - likewise
from driver.scenario import GIB, Card, Constant, Process, Scenario, replace_text  # noqa: E402 - likewise

# 10 ms and 150 ms where a million additions of Python take 24 ms, as on an unloaded machine of docs/speed.md.
COLLECTION_ADDITIONS = 0.42
IMPORT_ADDITIONS = 6.25
GROWTH_MIB = 12
TIMES = 7
IMPORT = """
import time
started = time.process_time()
from gua.instrumentation import GpuInstrumentor
print(1000 * (time.process_time() - started))
"""
COLLECTIONS = """
import os, time
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from gua.instrumentation import GpuInstrumentor, readings
readings._FRESH_SECONDS = 0
reader = InMemoryMetricReader()
GpuInstrumentor().instrument(meter_provider=MeterProvider(metric_readers=[reader]), scope="host")
times = []
for _ in range(60):
    time.sleep(0.05)
    started = time.process_time()
    data = reader.get_metrics_data()
    times.append(1000 * (time.process_time() - started))
scopes = data.resource_metrics[0].scope_metrics
count = sum(len(metric.data.data_points) for scope in scopes for metric in scope.metrics)
print(count, min(times), sorted(times)[30])
"""
# Each of 10,000 processes is in two readings, as if it had lived over one export interval; the SDK keeps their sets.
LASTING = """
import resource, threading
from types import SimpleNamespace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from gua.core.tick import CardReading, Origin, ProcessReading, Tick
from gua.core.words import ProcessList, Source
from gua.instrumentation import GpuInstrumentor, readings
readings._FRESH_SECONDS = 0
origin = Origin(host="host", source=Source.PROGRAM, interval_ms=1000)
here = ()
def read():
    card = CardReading(uuid="GPU-1", duration_ms=9, gpu_time_ms=9, process_list=ProcessList.KNOWN, processes=here)
    return Tick(ts_ms=1, origin=origin, cards=(card,)), None
readings.Readings = lambda scope: SimpleNamespace(read=read, cards=SimpleNamespace(close=int, is_open=False))
reader = InMemoryMetricReader()
GpuInstrumentor().instrument(meter_provider=MeterProvider(metric_readers=[reader]))
def collect(first):
    global here
    here = tuple(
        ProcessReading(pid=pid, created_ms=1, memory_bytes=1, gpu_time_ms=1, utilization=0.1)
        for pid in range(max(1, first - 100), first + 100)
    )
    reader.get_metrics_data()
    for thread in threading.enumerate():
        if thread.name == "gua-instruments":
            thread.join()
for first in range(1, 10_101, 100):
    if first == 101:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    collect(first)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 / 10)
"""


def main() -> None:
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder) / "driver.scenario"
        holders = [Process(os.getpid(), 4 * GIB, Constant(50))]
        cards = [Card(f"GPU-00000000-0000-0000-0000-00000000000{number}", processes=holders) for number in range(8)]
        replace_text(scenario, Scenario(cards).text())
        driver = {"LD_LIBRARY_PATH": str(build()), "GUA_SIMULATED_DRIVER": str(scenario)}
        reference_ms = additions_ms()
        imports = [float(run(IMPORT)) for _ in range(TIMES)]
        collections = [[*map(float, run(COLLECTIONS, **driver).split())] for _ in range(3)]
        reference_ms = (reference_ms + additions_ms()) / 2
    points, _, median_ms = min(collections, key=lambda each: each[2])
    growth_mib = float(run(LASTING))
    title("In million additions of Python, CPU")
    figures = [
        ("import of gua.instrumentation", middle(imports) / reference_ms, IMPORT_ADDITIONS, middle(imports)),
        ("collection of 8 cards, 8 processes", median_ms / reference_ms, COLLECTION_ADDITIONS, median_ms),
    ]
    for name, value, limit, measured_ms in figures:
        show(name, value, "", limit, f"{measured_ms:.1f} ms here")
    show("points of that collection", points)
    title("Memory")
    show("1,000 processes of over one interval", growth_mib, "MiB", GROWTH_MIB, "for the program's life")


def run(program: str, **variables: str) -> str:
    """Return what a program prints."""
    environment = {**os.environ, **variables}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    ).stdout


if __name__ == "__main__":
    main()
