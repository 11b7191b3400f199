from __future__ import annotations

import ctypes
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import Card, Fault, Process, Scenario, uuid
from gua.app.doctor import driver
from gua.app.doctor.checks import run_checks
from gua.app.doctor.delivery import check_delivery, check_embedded, check_endpoint
from gua.app.doctor.driver import check_driver
from gua.app.doctor.finding import (
    CheckState,
    Finding,
    error_finding,
    failed,
    ok,
    render_json,
    render_text,
    skipped,
    warning,
)
from gua.app.doctor.state import (
    check_agent,
    check_clock,
    check_processes,
    check_spool,
    check_state,
    check_system,
    check_unit,
    check_utilization,
    kernel_synchronized,
)
from gua.core.errors import UnavailableError
from gua.core.ports import RawCard, RawProcess
from gua.core.tick import CardReading, ReadError
from gua.core.words import Mig, ProcessList
from gua.procfs.reader import ProcFs
from gua.spool.queue import Spool
from gua.store.dsn import EmbeddedDsn

GUA = Path(sys.executable).with_name("gua")
TREES = Path(__file__).parents[2] / "fixtures" / "proc"
NO_PERMISSION = 4
NOW_S = 1_774_440_000
READING = CardReading(
    uuid="GPU-1",
    duration_ms=1,
    gpu_time_ms=0,
    process_list=ProcessList.KNOWN,
    index=0,
    name="NVIDIA H100",
    driver_version="575.57.08",
    mig=Mig.NONE,
    utilization=0.5,
    memory_used_bytes=2**30,
    memory_limit_bytes=80 * 2**30,
    memory_reserved_bytes=2**29,
)


class Cards:
    """A driver with configured answers."""

    def __init__(self, *readings: CardReading, errors: Sequence[ReadError] = (), refuses: str | None = None) -> None:
        one = RawProcess(pid=1, lists=frozenset({"compute"}), memory_bytes=1, utilization=None)
        self.raw = [RawCard(reading=reading, gpu_fraction=(1, 1), processes=(one,)) for reading in readings]
        self.errors = errors
        self._refuses = refuses
        self.reads = 0
        self.closed = False

    def read(self) -> tuple[Sequence[RawCard], Sequence[ReadError]]:
        self.reads += 1
        if self._refuses:
            raise UnavailableError(self._refuses)
        return self.raw, self.errors

    def drain(self) -> None:
        raise AssertionError

    def close(self) -> None:
        self.closed = True


def look(dev: Path, cards: Cards) -> dict[str, Finding]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver.ctypes, "CDLL", lambda _: None)
        patch.setattr(driver, "_BETWEEN_SECONDS", 0)
        return by_id(check_driver(dev, lambda: cards))


def by_id(findings: Sequence[Finding]) -> dict[str, Finding]:
    found = {one.id: one for one in findings}
    assert len(found) == len(findings)
    assert all(one.remedy for one in findings if one.state in {CheckState.WARNING, CheckState.FAILED})
    return found


def test_a_host_without_a_driver_gets_the_advice_to_install_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(name: str) -> None:
        msg = f"{name}: cannot open shared object file: No such file or directory"
        raise OSError(msg)

    monkeypatch.setattr(driver.ctypes, "CDLL", nothing)
    found = by_id(check_driver(tmp_path, lambda: pytest.fail("asked")))
    assert {name: one.state for name, one in found.items()} == {
        "devices": CheckState.FAILED,
        "library": CheckState.FAILED,
        "driver": CheckState.SKIPPED,
    }
    assert found["library"].detail == (
        "libnvidia-ml.so.1 cannot be loaded (cannot open shared object file: No such file or directory)"
    )
    assert "install the NVIDIA driver" in (found["library"].remedy or "")


def test_a_driver_that_refuses_is_quoted_with_what_to_do(tmp_path: Path) -> None:
    cards = Cards(refuses="cannot read the GPUs (NVML DRIVER_NOT_LOADED): the driver is not loaded: load it")
    driver = look(tmp_path, cards)["driver"]
    assert (driver.state, driver.remedy) == (CheckState.FAILED, "load it")
    assert cards.closed


def test_a_sound_card_needs_no_remedy(tmp_path: Path) -> None:
    (tmp_path / "nvidiactl").touch()
    (tmp_path / "nvidia0").touch()
    found = look(tmp_path, Cards(READING))
    assert {one.state for one in found.values()} == {CheckState.OK}
    assert found["devices"].detail == f"2 in {tmp_path}, all permitted"
    assert found["driver"].detail == "version 575.57.08, 1 GPU"
    assert found["card.GPU-1"].detail == (
        "NVIDIA H100 (GPU-1); MIG off; 1.0 of 80.0 GiB used, driver's reserve separate; "
        "utilization as an instant value, no samples yet; 1 process"
    )


def test_what_cannot_be_read_of_a_card_is_a_warning(tmp_path: Path) -> None:
    blind = replace(READING, utilization=None, memory_used_bytes=None, process_list=ProcessList.FAILED)
    error = ReadError(call="nvmlDeviceGetMemoryInfo", code="NO_PERMISSION", uuid="GPU-1")
    card = look(tmp_path, Cards(blind, errors=[error]))["card.GPU-1"]
    assert card.state is CheckState.WARNING
    for part in ("no owners", "memory cannot be read", "utilization cannot", "nvmlDeviceGetMemoryInfo: NO_PERMISSION"):
        assert part in card.detail


def test_a_lost_card_fails_whether_it_still_has_a_name_or_not(tmp_path: Path) -> None:
    found = look(tmp_path, Cards(replace(READING, failed=True)))
    assert found["card.GPU-1"].state is CheckState.FAILED
    nameless = ReadError(call="nvmlDeviceGetHandleByIndex", code="GPU_IS_LOST")
    assert look(tmp_path, Cards(READING, errors=[nameless]))["driver"].state is CheckState.FAILED
    other = ReadError(call="nvmlDeviceGetHandleByIndex", code="UNKNOWN")
    assert look(tmp_path, Cards(READING, errors=[other]))["driver"].state is CheckState.WARNING


@pytest.mark.parametrize(
    ("action", "need", "remedy"),
    [
        (1, "needs a reset", "end its processes, then nvidia-smi --gpu-reset -i 0"),
        (2, "needs a reboot", "reboot the host"),
        (
            3,
            "needs a drain",
            "end its processes with peer-to-peer traffic, turn off UVM persistence mode, and look again",
        ),
        (4, "needs a drain and reset", "when its processes have ended, nvidia-smi --gpu-reset -i 0"),
        (5, "needs attention (recovery action code 5)", "look at nvidia-smi -q and at dmesg"),
        (4_294_967_295, "needs attention (recovery action code 4294967295)", "look at nvidia-smi -q and at dmesg"),
    ],
)
def test_a_card_that_needs_recovery_is_a_warning_with_the_command(
    tmp_path: Path, action: int, need: str, remedy: str
) -> None:
    card = look(tmp_path, Cards(replace(READING, recovery_action=action)))["card.GPU-1"]
    assert card.state is CheckState.WARNING
    assert need in card.detail.split("; ")
    assert (card.remedy or "").endswith(remedy)


@pytest.mark.parametrize("action", [0, None])
def test_a_card_that_needs_no_recovery_or_of_which_that_is_unknown_is_sound(tmp_path: Path, action: int | None) -> None:
    card = look(tmp_path, Cards(replace(READING, recovery_action=action)))["card.GPU-1"]
    assert (card.state, "needs" in card.detail) == (CheckState.OK, False)


def test_instances_are_read_twice_and_their_parent_is_not_missed(tmp_path: Path) -> None:
    parent = replace(READING, mig=Mig.PARENT, utilization=None)
    instance = replace(READING, uuid="MIG-1", mig=Mig.INSTANCE, parent="GPU-1")
    cards = Cards(parent, instance)
    found = look(tmp_path, cards)
    assert cards.reads == 2
    assert (found["card.GPU-1"].state, found["card.MIG-1"].state) == (CheckState.OK, CheckState.OK)
    assert found["driver"].detail == "version 575.57.08, 1 GPU (in 1 MIG instance)"


def test_a_device_that_is_not_permitted_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    monkeypatch.setattr(os, "access", lambda path, _mode: path.name != "nvidia1")
    found = look(tmp_path, Cards(READING))
    assert found["devices"].state is CheckState.FAILED
    assert found["devices"].detail.endswith("nvidia1 may not be read and written by this user (1 of 3)")


def test_activity_says_which_cards_have_counters_and_why_others_do_not(tmp_path: Path) -> None:
    assert look(tmp_path, Cards(READING))["activity"].detail.startswith("no card has performance counters")
    counting = Cards(READING, replace(READING, uuid="GPU-2"))
    counting.raw[0] = replace(counting.raw[0], has_activity=True)
    assert look(tmp_path, counting)["activity"].detail == (
        "1 of 2 cards can report activity of SMs, tensor cores and memory bandwidth: gua daemon --activity gpm reads it"
    )
    counting.errors = [ReadError(call="nvmlGpmSampleGet", code="NO_PERMISSION", uuid="GPU-2")]
    found = look(tmp_path, counting)
    assert (found["activity"].state, found["card.GPU-2"].state) == (CheckState.WARNING, CheckState.OK)
    assert "nvmlGpmSampleGet: NO_PERMISSION" in found["activity"].detail


def test_a_fault_of_a_driver_that_is_worked_around_is_named(tmp_path: Path) -> None:
    card = look(tmp_path, Cards(replace(READING, driver_version="535.54.03")))["card.GPU-1"]
    assert "known fault of this driver" in card.detail


@pytest.mark.parametrize(
    ("now_s", "synchronized", "state"),
    [
        (NOW_S, True, CheckState.OK),
        (NOW_S, None, CheckState.OK),
        (NOW_S, False, CheckState.WARNING),
        (0, True, CheckState.FAILED),
    ],
)
def test_a_clock_must_be_of_this_time_and_better_kept_by_others(
    now_s: int,
    synchronized: bool | None,  # noqa: FBT001 - a case
    state: CheckState,
) -> None:
    assert by_id(check_clock(now_s, "id", synchronized))["clock"].state is state
    assert by_id(check_clock(now_s, None, synchronized))["boot"].state is CheckState.WARNING


@pytest.mark.parametrize(("status", "answer", "expected"), [(0x41, 5, False), (0x2001, 0, True), (0, -1, None)])
def test_the_kernels_clock_status_is_read_and_never_set(
    status: int,
    answer: int,
    expected: bool | None,  # noqa: FBT001 - a case
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert kernel_synchronized() in {True, False, None}

    def adjtimex(timex: ctypes.Array[ctypes.c_char]) -> int:
        assert timex.raw == bytes(208)
        ctypes.memmove(ctypes.addressof(timex) + 40, status.to_bytes(4, "little"), 4)
        return answer

    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(adjtimex=adjtimex))
    assert kernel_synchronized() is expected


def test_the_hosts_own_namespaces_pass_and_others_report_what_is_lost() -> None:
    found = by_id(check_processes(ProcFs(TREES / "host")))
    assert found["pid_namespace"].state is CheckState.OK
    assert found["user_names"].state is CheckState.WARNING
    assert by_id(check_processes(ProcFs(TREES / "container")))["pid_namespace"].state is CheckState.WARNING
    assert by_id(check_processes(ProcFs(TREES / "none")))["proc"].state is CheckState.FAILED


def test_a_home_that_others_may_write_fails_and_one_that_is_not_there_does_not(tmp_path: Path) -> None:
    assert by_id(check_state(tmp_path / "new"))["state_directory"].state is CheckState.OK
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    found = by_id(check_state(shared))["state_directory"]
    assert found.state is CheckState.FAILED
    assert "chmod 700" in (found.remedy or "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shared"]


def test_a_spool_is_counted_without_leaving_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "spool.db"
    assert check_spool(path).state is CheckState.SKIPPED
    with Spool(path, destinations=("store",)) as spool:
        spool.append(NOW_S * 1000, b"tick")
        assert check_spool(path).detail.endswith("waiting: 1 for store")  # while the agent has it open
        while_open = sorted(os.listdir(tmp_path))  # noqa: PTH208 - names are enough
    before = sorted((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in tmp_path.iterdir())
    assert check_spool(path).detail.endswith("waiting: 1 for store")
    assert sorted((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in tmp_path.iterdir()) == before
    assert len(while_open) >= len(before)


@pytest.mark.parametrize("damage", [b"SQLite format 3\0" + b"\xff" * 5000, b"x" * 5000])
def test_a_damaged_spool_is_a_warning_as_the_agent_mends_it(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "spool.db"
    path.write_bytes(damage)
    found = check_spool(path)
    assert found.state is CheckState.WARNING
    assert "start the agent" in (found.remedy or "")


def test_another_programs_file_is_no_spool(tmp_path: Path) -> None:
    path = tmp_path / "spool.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE t (a)")
    assert check_spool(path).state is CheckState.FAILED


def test_a_missing_agent_is_reported_and_is_no_failure(tmp_path: Path) -> None:
    found = check_agent(tmp_path / "agent.pid", tmp_path / "agent.log", {"GUA_HOST_LOCK": f"gua-doctor-{os.getpid()}"})
    assert (found.state, found.detail) == (CheckState.OK, "none runs; gua daemon starts it")


def test_a_unit_is_found_where_systemd_runs(tmp_path: Path) -> None:
    assert check_unit(tmp_path, user=None).state is CheckState.SKIPPED
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert "none" in check_unit(tmp_path, user=None).detail
    unit = tmp_path / "etc/systemd/system/gua.service"
    unit.parent.mkdir(parents=True)
    unit.touch()
    assert check_unit(tmp_path, user=tmp_path).detail == str(unit)


def test_an_embedded_store_is_judged_by_its_stamp_and_left_as_it_is(tmp_path: Path) -> None:
    dsn = EmbeddedDsn(path=tmp_path / "store")
    assert by_id(check_embedded(dsn, None))["engine"].state is CheckState.FAILED
    assert by_id(check_embedded(dsn, "26.9.0"))["store"].state is CheckState.OK
    assert not dsn.path.exists()
    dsn.path.mkdir()
    stamp = dsn.path / "gua-store.json"
    for content, state in (
        ('{"engine": "26.9.1.1"}', CheckState.OK),
        ('{"engine": "27.1.1.1"}', CheckState.FAILED),
        ("garbage", CheckState.FAILED),
    ):
        stamp.write_text(content)
        assert by_id(check_embedded(dsn, "26.9.0"))["store"].state is state
    assert [file.name for file in dsn.path.iterdir()] == ["gua-store.json"]


@contextmanager
def receiver(status: int, bodies: list[bytes]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "state"),
    [(200, CheckState.OK), (404, CheckState.FAILED), (503, CheckState.FAILED), (400, CheckState.FAILED)],
)
def test_an_endpoint_is_checked_with_an_empty_request(status: int, state: CheckState) -> None:
    bodies: list[bytes] = []
    with receiver(status, bodies) as url:
        found = check_endpoint(url, {"OTEL_EXPORTER_OTLP_COMPRESSION": "none"})
    assert found.state is state, found
    assert set(bodies) == {b""}
    assert found.state is CheckState.OK or found.remedy


def test_an_endpoint_without_a_listener_is_named(tmp_path: Path) -> None:
    found = by_id(check_delivery(None, "http://127.0.0.1:1", tmp_path, {}))
    assert found["endpoint"].state is CheckState.FAILED
    assert "127.0.0.1:1" in found["endpoint"].detail
    assert by_id(check_delivery(None, "nonsense", tmp_path, {}))["destination"].state is CheckState.FAILED


def test_one_check_that_breaks_hides_none_of_the_others() -> None:
    def broken() -> list[Finding]:
        msg = "oops"
        raise ZeroDivisionError(msg)

    found = list(run_checks([("a", broken), ("b", check_system)]))
    assert found[0].state is CheckState.FAILED
    assert "ZeroDivisionError: oops" in found[0].detail
    assert "system" in by_id(found[1:])


def test_an_errors_last_part_is_what_to_do() -> None:
    found = error_finding("a", UnavailableError("cannot reach http://x: 1 (down): start it"))
    assert (found.detail, found.remedy) == ("cannot reach http://x: 1 (down)", "start it")


FINDINGS = [
    ok("a", "fine", title="first"),
    warning("b", "a path/" + "x" * 50 + " that is long, and goes on for more than a line", "do this", title="second"),
    failed("c", "bad \x1b[31m\u202ename", "do that", title="third"),
    skipped("fourth", "not here"),
]


def test_the_text_has_a_line_a_check_and_below_it_what_to_do() -> None:
    text = render_text(FINDINGS, 60)
    assert text.splitlines() == [
        "ok       first   fine",
        "warning  second  a",
        "                 path/" + "x" * 50,
        "                 that is long, and goes on for more than a",
        "                 line",
        "                 -> do this",
        "FAILED   third   bad [31mname",
        "                 -> do that",
        "-        fourth  not here",
        "",
        "1 failed, 1 warning",
    ]


def test_the_json_keeps_ids_and_states() -> None:
    found = json.loads(render_json(FINDINGS))
    assert (found["schema"], found["healthy"]) == ("gua.doctor/1", False)
    assert [(one["id"], one["state"]) for one in found["checks"]] == [
        ("a", "ok"),
        ("b", "warning"),
        ("c", "failed"),
        ("fourth", "skipped"),
    ]
    assert found["checks"][0]["remedy"] is None
    assert json.loads(render_json(FINDINGS[:2]))["healthy"] is True


def test_the_command_reports_what_is_missing_and_creates_nothing(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("GUA_", "OTEL_"))}
    begun = time.monotonic()
    done = subprocess.run(
        [GUA, "doctor", "--json", "--state-dir", tmp_path / "home"],
        env={**environ, "HOME": str(tmp_path), "GUA_HOST_LOCK": f"gua-doctor-{os.getpid()}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    took = time.monotonic() - begun
    assert done.stderr == ""
    found = json.loads(done.stdout)
    states = {one["id"]: one["state"] for one in found["checks"]}
    assert {"system", "devices", "library", "driver", "proc", "clock", "spool", "agent", "destination"} <= states.keys()
    assert done.returncode == (0 if found["healthy"] else 3)
    if states["library"] == "failed":  # as on any machine without a driver
        assert done.returncode == 3
    assert list(tmp_path.iterdir()) == []
    assert took < 30


def test_the_command_reads_every_card_of_a_driver_and_leaves_it(
    simulated_driver: SimulatedDriver, tmp_path: Path
) -> None:
    cards = [
        Card(uuid(1), processes=[Process(os.getpid(), memory=2**30)]),
        Card(uuid(2), wrong=[Fault("nvmlDeviceGetComputeRunningProcesses*", NO_PERMISSION)]),
    ]
    simulated_driver.write(Scenario(cards=cards))
    home = tmp_path / "home"
    done = subprocess.run(
        [GUA, "doctor", "--json", "--state-dir", home],
        env={**os.environ, **simulated_driver.environment, "GUA_HOST_LOCK": f"gua-doctor-{os.getpid()}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    found = {one["title"]: one for one in json.loads(done.stdout)["checks"]}
    assert (found["NVML library"]["state"], found["driver"]["state"]) == ("ok", "ok")
    assert found["card 0"]["state"] == "ok"
    assert "1 process" in found["card 0"]["detail"]
    assert found["card 1"]["state"] == "warning"
    assert "NO_PERMISSION" in found["card 1"]["detail"]
    assert not home.exists()


def test_cards_with_equal_findings_share_a_line_in_text_only(tmp_path: Path) -> None:
    same = [replace(READING, uuid=f"GPU-{number}", index=number) for number in (0, 1, 2, 4)]
    findings = [*look(tmp_path, Cards(*same, replace(READING, uuid="GPU-3", index=3, memory_used_bytes=0))).values()]
    lines = render_text(findings, 200).splitlines()
    card_lines = [line for line in lines if "driver's reserve separate" in line]
    assert [" ".join(line.split()).partition(" GiB")[0] for line in card_lines] == [
        "ok cards 0-2,4 NVIDIA H100 (4 cards); MIG off; 1.0 of 80.0",
        "ok card 3 NVIDIA H100 (GPU-3); MIG off; 0.0 of 80.0",
    ]
    assert len([one for one in json.loads(render_json(findings))["checks"] if one["id"].startswith("card.")]) == 5


def test_stuck_utilization_is_a_warning_with_its_two_causes_and_a_hostile_uuid_is_cleaned() -> None:
    cards = [
        {"index": 3, "uuid": "GPU-3", "without_process_seconds": 601.0, "utilization": 0.93},
        {"index": 4, "uuid": "GPU-4", "without_process_seconds": 600.0, "utilization": 0.93},
        {"index": None, "uuid": "\x1b[2JGPU", "without_process_seconds": 90_000.0, "utilization": None},
        {"index": 0, "uuid": "MIG-a", "mig": "instance", "without_process_seconds": 1200.0, "utilization": 0.5},
        {"index": 5, "uuid": "GPU-5", "without_process_seconds": None, "utilization": 0.93},
        {"index": 6, "without_process_seconds": "long"},
    ]
    found = check_utilization({"cards": cards})
    assert [one.state for one in found] == [CheckState.WARNING] * 3
    assert found[0].detail == "GPU 3 has been active for 10m 1s without a process and without held memory, 93.0 % now"
    assert "nvidia-smi --gpu-reset -i 3" in (found[0].remedy or "")
    assert "nvidia-smi -pm 1" in (found[0].remedy or "")
    assert "\x1b" not in found[1].detail
    assert "active for 1d 1h without" in found[1].detail
    assert "-i N" in (found[1].remedy or "")
    assert found[2].detail.startswith("MIG-a has been active for 20m")
    assert "end all that uses its GPU, also in other instances" in (found[2].remedy or "")
    assert check_utilization(None) == check_utilization({}) == check_utilization({"cards": 7}) == []
