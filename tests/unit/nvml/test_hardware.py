"""The tests for real cards, as far as they run without one: their checks, their load, and left-out cards."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driver.build import COMMAND
from fakes.cards import card, process
from gua.core.rules import State
from gua.core.tick import CardReading
from gua.core.words import ProcessList
from hardware import here, smi
from hardware.phases import MIB, PHASES, Holder, Seen, faults, mean_utilization, table
from hardware.smi import Row
from hardware.watch import loaded

TESTS = Path(__file__).resolve().parents[2]
HARDWARE = TESTS / "hardware"
PHASE = {phase.name: phase for phase in PHASES}
HOLDER = Holder(pid=4711, owner="alice", comm="python3")


def row(utilization: str = "0", used: int = 0) -> Row:
    return {"uuid": "GPU-1", "memory.used": str(used), "memory.total": "81920", "utilization.gpu": utilization}


def reading(busy: float = 0.0, *, held_mib: int = 0, coverage_ms: int = 30_000) -> CardReading:
    held = (process(HOLDER.pid, held_mib * MIB, owner="alice", comm="python3", utilization=busy),) if held_mib else ()
    return card(
        busy=busy,
        memory_used_bytes=held_mib * MIB,
        memory_reserved_bytes=512 * MIB,
        memory_limit_bytes=81_920 * MIB,
        utilization_coverage_ms=coverage_ms,
        process_list=ProcessList.KNOWN,
        processes=held,
    )


def seen(busy: float, instant: str, held_mib: int, state: State) -> Seen:
    return Seen(
        readings=[reading(busy, held_mib=held_mib)] * 8,
        status={"state": state.value, "holders": [{"pid": HOLDER.pid}] if held_mib else []},
        shares={state.value: 1.0},
        cards=[row(instant, held_mib)] * 6,
        apps=[{"gpu_uuid": "GPU-1", "pid": str(HOLDER.pid), "used_gpu_memory": str(held_mib)}] * 6 if held_mib else [],
        holder=HOLDER if held_mib else None,
        sees_processes=True,
    )


GOOD = {
    "idle": seen(0.0, "0", 0, State.TRULY_IDLE),
    "held": seen(0.0, "0", 2048, State.IDLE_HELD),
    "computing": seen(0.99, "100", 1536, State.ACTIVE),
    "bursts": seen(0.101, "60", 1536, State.ACTIVE),
}


@pytest.mark.parametrize("name", PHASE)
def test_a_correct_measurement_has_no_faults(name: str) -> None:
    assert faults(PHASE[name], GOOD[name]) == []
    assert table(PHASE[name], GOOD[name]).startswith(name)


def of(name: str, **changes: Any) -> list[str]:  # noqa: ANN401 - fields of Seen
    return faults(PHASE[name], replace(GOOD[name], **changes))


def test_a_wrong_state_is_reported_for_every_place_that_shows_it() -> None:
    wrong = [reading(0.5, held_mib=2048)] * 8
    found = of("held", readings=wrong, status={"state": "active"}, shares={"active": 1.0})
    assert found[0] == "8 of 8 ticks are active, not idle-held"
    assert found[1] == "gua status says active, not idle-held"
    assert found[2].startswith("gua report has 0.0% of the time as idle-held")
    assert "the mean utilization is 0.500, not within 0.0 and 0.02" in found
    assert "the process's utilization is 0.50, and it only holds memory" in found
    assert f"gua status does not list process {HOLDER.pid}" in found


def test_a_wrongly_measured_burst_is_reported() -> None:
    assert of("bursts", readings=[reading(0.13, held_mib=1536)] * 8) == [
        "the mean utilization is 0.130, not within 0.08 and 0.12"
    ]
    assert of("bursts", readings=[reading(0.1, held_mib=1536, coverage_ms=6_000)] * 8) == [
        "samples cover 20% of the time: the rest is instant values"
    ]


def test_a_wrong_owner_or_amount_is_reported() -> None:
    assert of("held", holder=replace(HOLDER, owner="bob"))[0].endswith("not bob's python3")
    assert of("held", holder=replace(HOLDER, pid=1))[0] == "process 1 is missing in 8 of 8 ticks"
    assert of("held", cards=[row("0", 3000)]) == ["2048 MiB are used, nvidia-smi says 3000"]
    assert of("held", apps=[{"pid": "4711", "used_gpu_memory": "3000"}]) == [
        "the process holds 2048 MiB, nvidia-smi says 3000"
    ]
    assert of("held", apps=[{"pid": "4711", "used_gpu_memory": "[N/A]"}]) == []
    assert of("idle", readings=[reading(held_mib=1)] * 8)[-1].startswith("processes [4711] are on a card")


def test_too_few_ticks_prove_nothing() -> None:
    assert of("idle", readings=[reading()] * 5) == ["only 5 settled ticks, 6 are needed"]


def test_a_missing_load_is_distinguished_from_a_wrong_reading() -> None:
    assert of("computing", cards=[row("3", 1536)]) == [
        "nvidia-smi saw 0.03 on average: the load was not what it should be"
    ]


def test_outside_of_the_pid_namespace_no_owner_may_be_reported() -> None:
    assert of("held", sees_processes=False) == [
        "outside of the host's PID namespace the process list is ['known']",
        "outside of the host's PID namespace processes have owners: ['alice']",
    ]
    hidden = replace(reading(held_mib=2048), process_list=ProcessList.PID_NAMESPACE, processes=())
    assert of("held", sees_processes=False, readings=[hidden] * 8) == []


def test_an_unknown_utilization_is_no_mean() -> None:
    assert mean_utilization([reading(0.5), replace(reading(), utilization=None)]) is None


def test_the_rows_of_nvidia_smi_are_read() -> None:
    assert smi.parse("GPU-1, 12, [N/A]\n\n", ["uuid", "memory.used", "utilization.gpu"]) == [
        {"uuid": "GPU-1", "memory.used": "12", "utilization.gpu": "[N/A]"}
    ]
    assert (smi.number("12.5"), smi.number("[N/A]"), smi.number("[Insufficient Permissions]")) == (12.5, None, None)


def test_a_machine_without_a_card_has_no_evidence_of_one(tmp_path: Path) -> None:
    (tmp_path / "sys/bus/pci/devices/0000:00:01.0").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices/0000:00:01.0/vendor").write_text("0x8086\n")
    (tmp_path / "sys/bus/pci/devices/0000:00:01.0/class").write_text("0x030000\n")
    assert here.evidence(tmp_path) is None


@pytest.mark.parametrize("path", ["dev/nvidiactl", "proc/driver/nvidia/version"])
def test_a_driver_is_evidence_of_a_card(tmp_path: Path, path: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text("")
    assert here.evidence(tmp_path) == f"/{path}"


def test_a_card_without_a_driver_is_evidence_too(tmp_path: Path) -> None:
    place = tmp_path / "sys/bus/pci/devices/0000:41:00.0"
    place.mkdir(parents=True)
    (place / "vendor").write_text("0x10de\n")
    (place / "class").write_text("0x030200\n")
    assert here.evidence(tmp_path) == "PCI device 0000:41:00.0"


def test_only_the_absence_of_a_card_leaves_a_test_out() -> None:
    skips = [
        (file.name, line.strip())
        for file in sorted(HARDWARE.glob("*.py"))
        for line in file.read_text(encoding="utf-8").splitlines()
        if re.search(r"\b(?:skip|skipif|importorskip|xfail)\b", line)
    ]
    assert skips == [("conftest.py", 'pytest.skip("no NVIDIA card is in this machine")')]
    unmarked = [
        file.name for file in HARDWARE.glob("test_*.py") if "pytestmark = pytest.mark.gpu" not in file.read_text()
    ]
    assert unmarked == []


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cuda")
    subprocess.run(
        ["cc", *COMMAND, "-fvisibility=default", TESTS / "fakes/cuda.c", "-o", folder / "libcuda.so.1"], check=True
    )
    return folder


def run_load(cuda: Path, trace: Path, *arguments: str, seconds: float = 0.0) -> tuple[int, str, list[str]]:
    """Run load.py until its input ends after some seconds; return its code, its errors, and its driver calls."""
    environ = {**os.environ, "LD_LIBRARY_PATH": str(cuda), "GUA_FAKE_CUDA": str(trace)}
    process = subprocess.Popen(
        [sys.executable, HARDWARE / "load.py", *arguments],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(seconds)
    _, complaints = process.communicate(timeout=30)
    return process.returncode, complaints, trace.read_text().splitlines() if trace.exists() else []


def test_a_load_only_holds_memory(cuda: Path, tmp_path: Path) -> None:
    assert run_load(cuda, tmp_path / "trace", "hold", "--mib", "2048") == (
        0,
        "",
        [f"ALLOC {2048 * MIB}", "KERNEL 1000000"],
    )


def test_a_load_comes_in_bursts_of_a_part_of_each_period(cuda: Path, tmp_path: Path) -> None:
    code, _, trace = run_load(cuda, tmp_path / "trace", "burst", "--busy-ms", "20", "--period-ms", "200", seconds=1.1)
    kernels = [line for line in trace if line == "KERNEL 20000000"]
    assert code == 0
    # At 0, 0.2, ... 1.0 s; a busy machine may miss some, and none is made up for.
    assert 3 <= len(kernels) <= 7


def test_a_load_computes_without_a_pause(cuda: Path, tmp_path: Path) -> None:
    code, _, trace = run_load(cuda, tmp_path / "trace", "compute", seconds=0.5)
    assert code == 0
    assert len(trace) >= 2 + 4
    assert set(trace[2:]) == {"KERNEL 50000000"}


def test_a_load_that_cannot_be_says_why(cuda: Path, tmp_path: Path) -> None:
    code, complaint, _ = run_load(cuda, tmp_path / "trace", "hold", "--mib", "999999")
    assert (code, complaint) == (3, "load.py: cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY\n")
    code, complaint, _ = run_load(tmp_path, tmp_path / "trace", "hold")
    if here.evidence() is None:
        assert (code, complaint.startswith("load.py: libcuda.so.1: ")) == (3, True)


def test_who_loads_a_card_is_known_while_it_does(cuda: Path) -> None:
    with loaded(PHASE["held"], "GPU-1", environment={"LD_LIBRARY_PATH": str(cuda)}) as holder:
        assert holder is not None
        assert Path(f"/proc/{holder.pid}").exists()
        assert holder.comm.startswith("python")
        assert holder.owner == pwd.getpwuid(os.getuid()).pw_name
    assert not Path(f"/proc/{holder.pid}").exists()
    with loaded(PHASE["idle"], "GPU-1") as no_holder:
        assert no_holder is None
