"""Real programs with the SDK on the simulated driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import GIB, GPU_IS_LOST, Card, Constant, Fault, Hang, Instance, Lost, Process, Scenario, Window
from gua.procfs.reader import ProcFs

pytestmark = pytest.mark.skipif(not ProcFs().in_initial_pid_namespace(), reason="needs the host's PID namespace")

PRELUDE = """
import json, logging, multiprocessing, os, signal, subprocess, sys, threading, time
logging.basicConfig(format="%(levelname)s %(message)s")
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from gua.instrumentation import GpuInstrumentor, readings
readings._FRESH_SECONDS = 0
reader = InMemoryMetricReader()
provider = MeterProvider(metric_readers=[reader])

def collect(reader=reader):
    time.sleep(0.002)
    data = reader.get_metrics_data()
    return {metric.name: [(dict(point.attributes), point.value) for point in metric.data.data_points]
            for each in (data.resource_metrics if data else []) for scope in each.scope_metrics
            for metric in scope.metrics}

def cards(points, name="hw.gpu.utilization"):
    return sorted({attributes["hw.id"] for attributes, _ in points.get(name, [])})

def pids(points):
    return sorted(attributes["process.pid"] for attributes, _ in points.get("gua.process.info", []))

def drive(text):
    with open(os.environ["GUA_SIMULATED_DRIVER"] + ".new", "w") as file:
        file.write(text)
    os.replace(file.name, os.environ["GUA_SIMULATED_DRIVER"])

def on_cards(*lines):
    drive(open(os.environ["GUA_SIMULATED_DRIVER"]).read() + "\\n".join(lines) + "\\n")
    time.sleep(0.03)

def say(**values):
    print(json.dumps(values), flush=True)

"""
A, B = "GPU-00000000-0000-0000-0000-00000000000a", "GPU-00000000-0000-0000-0000-00000000000b"


def run(driver: SimulatedDriver, program: str, **variables: str) -> tuple[list[Any], list[str]]:
    """Return what a program says, and its warnings; it must end well within a minute."""
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(("GUA_", "OTEL_", "CUDA_"))}
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + program],
        env={**inherited, **driver.environment, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.splitlines()


def two_cards(driver: SimulatedDriver, trace: Path | None = None, **of_first: Any) -> None:  # noqa: ANN401 - a Card's
    driver.write(Scenario([Card(A, **of_first), Card(B)], trace=trace))


def calls(trace: Path) -> Sequence[tuple[int, str]]:
    """Return the pid and name of each call of the driver."""
    return [(int(line.split()[1]), line.split()[2]) for line in trace.read_text().splitlines()]


def test_a_program_reports_its_own_process_and_its_childrens(simulated_driver: SimulatedDriver) -> None:
    two_cards(simulated_driver, memory_reserved=GIB)
    said, warnings = run(
        simulated_driver,
        """
child = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE)
grandchild = int(child.stdout.readline())
other = os.getppid()
on_cards(*(f"process {pid}\\nmemory 1048576" for pid in (os.getpid(), child.pid, grandchild, other)))
GpuInstrumentor().instrument(meter_provider=provider)
collect()
points = collect()
child.kill(); child.wait()
say(own=sorted([os.getpid(), child.pid, grandchild]), found=pids(points))
# The grandchild has another parent now, and is still of this program.
on_cards()
say(orphan=grandchild in pids(collect()))
GpuInstrumentor().uninstrument()
GpuInstrumentor().instrument(meter_provider=provider, scope="host")
collect()
say(host=other in pids(collect()))
os.kill(grandchild, signal.SIGKILL)
""",
    )
    assert said[0]["found"] == said[0]["own"]
    assert said[1:] == [{"orphan": True}, {"host": True}]
    assert warnings == []


def test_a_child_opens_the_driver_anew_and_reports_as_itself(simulated_driver: SimulatedDriver, tmp_path: Path) -> None:
    two_cards(simulated_driver, tmp_path / "trace")
    said, warnings = run(
        simulated_driver,
        """
GpuInstrumentor().instrument(meter_provider=provider)
collect()
child = os.fork()
if not child:
    on_cards(f"process {os.getpid()}\\nmemory 1048576")
    before = sum(seconds for _, seconds in collect()["gua.gpu.sample.duration"])
    points = collect()
    say(me=os.getpid(), found=pids(points), cards=len(cards(points)), before=before)
    os._exit(0)
os.waitpid(child, 0)
say(cards=len(cards(collect())))
""",
    )
    assert said == [{"me": said[0]["me"], "found": [said[0]["me"]], "cards": 2, "before": 0}, {"cards": 2}]
    of_child = [call for pid, call in calls(tmp_path / "trace") if pid == said[0]["me"]]
    assert of_child[:2] == ["nvmlShutdown", "nvmlInitWithFlags"]
    assert warnings == []


def test_children_that_are_forked_or_spawned_amid_readings_wait_for_no_lock(simulated_driver: SimulatedDriver) -> None:
    simulated_driver.write(Scenario([Card(A, wrong=[Hang("nvmlDeviceGetMemoryInfo*", 40)]), Card(B)]))
    said, warnings = run(
        simulated_driver,
        """
instrumentor = GpuInstrumentor()
instrumentor.instrument(meter_provider=provider)
source = instrumentor._source
threading.Thread(target=lambda: [source.refresh(*source.listeners) for _ in range(10**6)], daemon=True).start()
time.sleep(0.1)
children = []
for number in range(5):
    child = os.fork()
    if not child:
        signal.alarm(30)
        # The SDK's own lock may be held by a thread of the parent, so a new provider, as the SDK advises.
        other = InMemoryMetricReader()
        instrumentor.instrument(meter_provider=MeterProvider(metric_readers=[other]))
        found = cards(collect(other))
        instrumentor.uninstrument()
        os._exit(0 if len(found) == 2 else 1)
    children.append(child)
    time.sleep(0.013)
say(codes=[os.waitpid(child, 0)[1] for child in children])
""",
    )
    assert said == [{"codes": [0] * 5}]
    assert warnings == []


def test_a_spawned_process_instruments_itself(simulated_driver: SimulatedDriver) -> None:
    two_cards(simulated_driver)
    said, _ = run(
        simulated_driver,
        """
GpuInstrumentor().instrument(meter_provider=provider)
collect()
code = "from opentelemetry.sdk.metrics import MeterProvider; from gua.instrumentation import GpuInstrumentor;" \\
       "from opentelemetry.sdk.metrics.export import InMemoryMetricReader; r = InMemoryMetricReader();" \\
       "GpuInstrumentor().instrument(meter_provider=MeterProvider(metric_readers=[r]));" \\
       "print(len(r.get_metrics_data().resource_metrics))"
say(found=subprocess.check_output([sys.executable, "-c", code], text=True))
""",
    )
    assert said == [{"found": "1\n"}]


def test_two_hundred_short_children_leave_no_attribute_set(simulated_driver: SimulatedDriver) -> None:
    two_cards(simulated_driver)
    said, warnings = run(
        simulated_driver,
        """
base = open(os.environ["GUA_SIMULATED_DRIVER"]).read()
GpuInstrumentor().instrument(meter_provider=provider)
reported = set()
for _ in range(10):
    children = [subprocess.Popen(["sleep", "60"]) for _ in range(20)]
    on_cards(*(f"process {pid}\\nmemory 1048576" for pid in (os.getpid(), *(child.pid for child in children))))
    points = collect()
    reported |= set(pids(points))
    count = max(number for attributes, number in points["gua.gpu.processes"])
    for child in children:
        child.kill(); child.wait()
    drive(base)
say(reported=sorted(reported), me=os.getpid(), count=count)
""",
    )
    assert said == [{"reported": [said[0]["me"]], "me": said[0]["me"], "count": 21}]
    assert warnings == []


def test_uninstrument_releases_the_driver_and_makes_no_further_call(
    simulated_driver: SimulatedDriver, tmp_path: Path
) -> None:
    two_cards(simulated_driver, tmp_path / "trace")
    run(
        simulated_driver,
        """
GpuInstrumentor().instrument(meter_provider=provider)
assert cards(collect())
GpuInstrumentor().uninstrument()
assert collect() == {}
""",
    )
    names = [call for _, call in calls(tmp_path / "trace")]
    assert names[0] == "nvmlInitWithFlags"
    assert names[-1] == "nvmlShutdown"
    assert names.count("nvmlShutdown") == 1


def test_nothing_is_opened_before_the_first_collection(simulated_driver: SimulatedDriver, tmp_path: Path) -> None:
    (tmp_path / "trace").touch()
    two_cards(simulated_driver, tmp_path / "trace")
    run(simulated_driver, "GpuInstrumentor().instrument(meter_provider=provider)")
    assert calls(tmp_path / "trace") == []


def test_a_card_that_hangs_or_is_lost_hides_no_other(simulated_driver: SimulatedDriver) -> None:
    two_cards(simulated_driver, wrong=[Lost(GPU_IS_LOST, Window(start=time.time() + 3600))])
    said, warnings = run(
        simulated_driver,
        """
GpuInstrumentor().instrument(meter_provider=provider)
say(before=cards(collect()))
text = open(os.environ["GUA_SIMULATED_DRIVER"]).read()
import re
drive(re.sub(r"lost 15 from [0-9.]+", "lost 15", text))
time.sleep(0.03)
points = collect()
say(after=cards(points), failed=[a["hw.id"] for a, v in points["hw.status"] if a["hw.state"] == "failed" and v])
""",
    )
    assert said == [{"before": [A, B]}, {"after": [B], "failed": [A]}]
    assert all("GPU_IS_LOST" in line for line in warnings)
    assert 1 <= len(warnings) == len(set(warnings)) <= 2


def test_the_first_reading_reports_the_cards_that_answer_beside_one_that_hangs(
    simulated_driver: SimulatedDriver,
) -> None:
    two_cards(simulated_driver, wrong=[Hang("nvmlDeviceGet*", 60_000)])
    said, _ = run(
        simulated_driver,
        """
readings._CALL_SECONDS = 0.4
GpuInstrumentor().instrument(meter_provider=provider)
say(found=cards(collect()))
os._exit(0)
""",
    )
    assert said == [{"found": [B]}]


def test_a_driver_that_never_opens_has_one_thread_until_it_does(simulated_driver: SimulatedDriver) -> None:
    two_cards(simulated_driver)
    said, _ = run(
        simulated_driver,
        """
readings._CALL_SECONDS = 0.1
GpuInstrumentor().instrument(meter_provider=provider)
usual = open(os.environ["GUA_SIMULATED_DRIVER"]).read()
drive("hang *\\n" + usual)
time.sleep(0.03)
silent = [collect() for _ in range(4)]
say(silent=silent == [{}] * 4, threads=sum(thread.name == "nvml" for thread in threading.enumerate()))
drive(usual)
while not cards(collect()):
    time.sleep(0.05)
say(back=len(cards(collect())))
""",
    )
    assert said == [{"silent": True, "threads": 1}, {"back": 2}]


def test_a_driver_that_hangs_as_a_whole_costs_one_deadline_and_comes_back(simulated_driver: SimulatedDriver) -> None:
    two_cards(simulated_driver)
    said, warnings = run(
        simulated_driver,
        """
readings.DEADLINE_SECONDS, readings._CALL_SECONDS = 0.3, 5.0
GpuInstrumentor().instrument(meter_provider=provider)
collect()
usual = open(os.environ["GUA_SIMULATED_DRIVER"]).read()
drive("hang *\\n" + usual)
time.sleep(0.03)
started = time.monotonic()
silent = [collect() for _ in range(20)]
say(silent=silent == [{}] * 20, seconds=time.monotonic() - started)
drive(usual)
while not cards(collect()):
    time.sleep(0.05)
say(back=len(cards(collect())))
""",
    )
    assert said[0]["silent"]
    assert said[0]["seconds"] < 3
    assert said[1] == {"back": 2}
    assert warnings == [
        "WARNING gua: no GPU metrics until the driver answers: the NVIDIA driver has not answered for 0.3 s"
    ]


def test_garbage_and_refusals_of_the_driver_are_absent_points_and_a_warning_each(
    simulated_driver: SimulatedDriver,
) -> None:
    two_cards(simulated_driver, memory_base=100 * GIB, wrong=[Fault("nvmlDeviceGetPowerUsage", 4)])
    said, warnings = run(
        simulated_driver,
        """
GpuInstrumentor().instrument(meter_provider=provider)
for _ in range(3):
    points = collect()
say(power=cards(points, "hw.power"), memory=cards(points, "hw.gpu.memory.usage"))
""",
    )
    assert said == [{"power": [B], "memory": [B]}]
    assert sorted(line.split(" (")[0] for line in warnings) == [
        "WARNING gua: nvmlDeviceGetMemoryInfo failed: used and reserved exceed total",
        "WARNING gua: nvmlDeviceGetMemoryInfo failed: used exceeds total",
        "WARNING gua: nvmlDeviceGetPowerUsage failed: NO_PERMISSION",
    ]


@pytest.mark.parametrize(
    ("variable", "found"), [("1", [B]), (A[:-1], []), (A, [A]), ("", []), ("1,9,0", [B]), ("MIG-0b", ["MIG-0b"])]
)
def test_only_visible_cards_are_reported(simulated_driver: SimulatedDriver, variable: str, found: list[str]) -> None:
    partitioned = Card(
        "GPU-000c", mig="on", instances=[Instance("MIG-0a", 1, 3, load=Constant(5)), Instance("MIG-0b", 2, 3)]
    )
    simulated_driver.write(Scenario([Card(A), Card(B), partitioned]))
    program = """
GpuInstrumentor().instrument(meter_provider=provider)
say(cards=cards(collect(), "hw.gpu.memory.limit"))
"""
    said, _ = run(simulated_driver, program, CUDA_VISIBLE_DEVICES=variable)
    assert said == [{"cards": found}]


def test_processes_of_a_program_are_never_described_by_arguments_or_environments(
    simulated_driver: SimulatedDriver,
) -> None:
    simulated_driver.write(Scenario([Card(A, processes=[Process(1)])]))
    said, _ = run(
        simulated_driver,
        """
sys.argv[0] = "--password=hunter2"
child = subprocess.Popen(["sleep", "60.25"], env={"SECRET": "hunter2"})
on_cards(f"process {child.pid}\\nmemory 1048576")
GpuInstrumentor().instrument(meter_provider=provider, scope="host")
collect()
say(points=str(collect()))
child.kill()
""",
    )
    assert "sleep" in said[0]["points"]
    assert "hunter2" not in said[0]["points"]
    assert "60.25" not in said[0]["points"]
