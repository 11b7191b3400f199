"""The recorder of tests/hardware on the simulated driver, and a minute on a card played there in seconds."""

from __future__ import annotations

import json
import os
import pwd
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import GIB, MIB, Burst, Card, Constant, Fault, Instance, Process, Scenario, uuid
from fakes.nvidia_smi import install
from fakes.recorded import RecordedDriver
from gua.core.tick import Origin
from gua.core.words import ProcessList, Source
from gua.imports.recording import Recording
from gua.imports.rows import Reading
from gua.nvml.reader import NvmlReader
from hardware.phases import PHASES, Holder, faults
from hardware.watch import free_card, watch
from servers.agent import Agent

TESTS = Path(__file__).resolve().parents[2]
RECORD = """
import itertools, os, sys
from pathlib import Path
from hardware.record import Names, SmiRecording, record, recording
seconds = itertools.count()
class Clocked(SmiRecording):  # a slow machine must not part the rows of one reading
    def add(self):
        os.environ["NVIDIA_SMI_NOW"] = f"2026/03/25 12:00:{next(seconds):02}.000"
        super().add()
names = Names()
smi = Clocked(Path(sys.argv[2]), names)
with recording(Path(sys.argv[1]), names) as driver:
    record(driver, smi, readings=4, interval_seconds=0.4)
"""
SLEEPER = "sleeper"


@pytest.fixture(scope="module")
def sleeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    program = tmp_path_factory.mktemp("sleeper") / SLEEPER
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen(["sleep", "1000"], executable=str(program))
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def driver(driver_library: Path, tmp_path_factory: pytest.TempPathFactory) -> SimulatedDriver:
    return SimulatedDriver(library=driver_library, scenario=tmp_path_factory.mktemp("driver") / "driver.scenario")


@pytest.fixture(scope="module")
def environment(driver: SimulatedDriver) -> dict[str, str]:
    path = os.pathsep.join([str(install(driver.scenario.parent / "bin")), os.environ["PATH"]])
    return {**os.environ, **driver.environment, "PATH": path, "PYTHONPATH": str(TESTS)}


@pytest.fixture(scope="module")
def recorded(driver: SimulatedDriver, environment: dict[str, str], sleeper: int) -> tuple[Path, Path]:
    """Return what was recorded of a host with a card at work, one in MIG mode, and one that fails."""
    instance = Instance("MIG-11111111-2222-3333-4444-555555555555", gpu_instance=1, slices=3)
    working = Process(sleeper, memory=3 * GIB, load=Constant(70))
    driver.write(
        Scenario(
            [
                Card("GPU-aaaaaaaa-0000-4000-8000-000000000001", memory_reserved=500 * MIB, processes=[working]),
                Card("GPU-aaaaaaaa-0000-4000-8000-000000000002", mig="on", gpm=True, instances=[instance]),
                Card(
                    "GPU-aaaaaaaa-0000-4000-8000-000000000003",
                    memory_reserved=500 * MIB,
                    wrong=[Fault("nvmlDeviceGetPowerUsage", 4)],
                ),
            ]
        )
    )
    answers, folder = driver.scenario.parent / "host.jsonl", driver.scenario.parent / "smi"
    subprocess.run([sys.executable, "-c", RECORD, answers, folder], env=environment, check=True, timeout=60)
    return answers, folder


def test_a_recording_replayed_reads_as_the_host_it_was_made_on(recorded: tuple[Path, Path], sleeper: int) -> None:
    answers = RecordedDriver(recorded[0])
    reader = NvmlReader(answers.clock, answers)
    cards, errors = reader.read()
    reader.close()
    assert answers.about["nvidia-ml-py"]
    assert [card.reading.uuid.partition("-")[0] for card in cards] == ["GPU", "GPU", "MIG", "GPU"]
    working = cards[0]
    assert working.reading.memory_used_bytes == 3 * GIB
    assert working.reading.memory_reserved_bytes == 500 * MIB
    assert working.reading.utilization == pytest.approx(0.7)
    (process,) = working.processes
    assert (process.pid, process.memory_bytes, process.utilization) == (sleeper, 3 * GIB, pytest.approx(0.7))
    assert [card.gpu_fraction for card in cards] == [(1, 1), (4, 7), (3, 7), (1, 1)]
    assert [(error.call, error.code) for error in errors] == [("nvmlDeviceGetPowerUsage", "NO_PERMISSION")]


def test_a_recording_does_not_identify_its_cards(recorded: tuple[Path, Path]) -> None:
    answers, folder = recorded
    for file in (answers, folder / "gpu.csv", folder / "apps.csv"):
        text = file.read_text(encoding="utf-8")
        assert re.search("aaaaaaaa|11111111", text) is None
        assert "-0000-4000-8000-000000000000" in text


def test_every_call_is_kept_with_its_arguments_and_its_end(recorded: tuple[Path, Path]) -> None:
    _, *lines = recorded[0].read_text(encoding="utf-8").splitlines()
    entries: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert all(("result" in entry) != ("error" in entry) for entry in entries)
    refused = {(entry["call"], *entry["arguments"], entry["error"]) for entry in entries if "error" in entry}
    assert ("nvmlDeviceGetPowerUsage", "card 2", 4) in refused
    calls = {entry["call"] for entry in entries}
    assert {"nvmlInit", "nvmlDeviceGetSamples", "nvmlDeviceGetProcessUtilization", "nvmlGpmMetricsGet"} <= calls
    instances = {entry["arguments"][0] for entry in entries if entry["call"] == "nvmlDeviceGetGpuInstanceId"}
    assert instances == {"card 1 instance 0"}


def test_what_nvidia_smi_printed_can_be_imported(recorded: tuple[Path, Path], sleeper: int) -> None:
    gpu, apps = recorded[1] / "gpu.csv", recorded[1] / "apps.csv"
    recording = Recording([gpu], [apps], reading=Reading(timezone=UTC))
    survey = recording.survey(1000)
    assert survey.cards == 3
    origin = Origin(host="imported", source=Source.IMPORT, interval_ms=1000, instance_id="import")
    (first, *_) = recording.ticks(survey, origin)
    held = next(card for card in first.cards if card.processes)
    assert held.process_list is ProcessList.KNOWN
    assert held.memory_used_bytes == 3 * GIB
    assert [(process.pid, process.comm, process.memory_bytes) for process in held.processes] == [
        (sleeper, SLEEPER, 3 * GIB)
    ]


@pytest.mark.engine
def test_a_phase_of_a_real_card_is_watched_from_start_to_report(
    driver: SimulatedDriver,
    environment: dict[str, str],
    sleeper: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    phase = next(one for one in PHASES if one.name == "bursts")
    busy, free = Card(uuid(1), memory_reserved=500 * MIB, processes=[Process(1)]), uuid(2)
    bursts = Process(sleeper, memory=2 * GIB, load=Burst(period_ms=1000, on_ms=100))
    for name in ("PATH", "LD_LIBRARY_PATH", "GUA_SIMULATED_DRIVER"):
        monkeypatch.setenv(name, environment[name])  # nvidia-smi is run by this process
    driver.write(Scenario([busy, Card(free, memory_reserved=500 * MIB)]))
    assert free_card() == free
    driver.write(Scenario([busy, Card(free, memory_reserved=500 * MIB, processes=[bursts])]))
    time.sleep(1.5)  # as a load that is ready: the ring holds nothing of the time before
    holder = Holder(pid=sleeper, owner=pwd.getpwuid(os.getuid()).pw_name, comm=SLEEPER)
    agent = Agent(driver, tmp_path)
    try:
        seen = watch(agent, free, seconds=9, holder=holder, sees_processes=True, interval="1s", smi_every_seconds=2.5)
    finally:
        if agent.process is not None:
            agent.kill()
    assert faults(phase, seen) == []
    assert seen.shares is not None
    assert len(seen.cards) == len(seen.apps) == 4
