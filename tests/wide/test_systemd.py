"""The shipped unit under a real systemd: how it starts, ends, fails, heals, and what it may not do.

The system is Debian in namespaces of its own, gua is installed as deploy/systemd/README.md says, and the driver is the
simulated one. Run with `make test TESTS=wide`; `.ci/run` leaves it out.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from driver.build import NAME, build
from driver.scenario import MIB, Card, Scenario, uuid
from servers.process import poll
from servers.systemd import System, missing
from servers.tools import ROOT

pytestmark = [pytest.mark.wide, pytest.mark.xdist_group("systemd")]
UNIT = ROOT / "deploy" / "systemd" / "gua.service"
SLURM = ROOT / "deploy" / "slurm" / "README.md"
SCENARIO = "/etc/driver.scenario"
SETTINGS = f"GUA_INTERVAL=1s\nGUA_SIMULATED_DRIVER={SCENARIO}\nGUA_ALLOCATION=files\n"
CARDS = [Card(uuid(number), memory_reserved=500 * MIB) for number in (1, 2)]
HOME = "/var/lib/private/gua"
# Lower is tighter; what it leaves open is the network, the cards and the processes of all users.
MOST_EXPOSED = 2.0


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    if reason := missing():
        pytest.skip(f"left out: {reason}")
    files = {
        "/etc/systemd/system/gua.service": UNIT.read_bytes(),
        "/etc/gua/agent.env": SETTINGS.encode(),
        f"/usr/lib/{NAME}": (build() / NAME).read_bytes(),
        SCENARIO: Scenario(CARDS).text().encode(),
    }
    with System(files) as made:
        # As the page of the hooks says, line by line.
        (folder,) = re.findall(r"^printf '(d /run/gua-allocations .*)\\n' > (\S+)$", SLURM.read_text(), re.MULTILINE)
        made.write(folder[1], f"{folder[0]}\n".encode())
        made.must("systemd-tmpfiles", "--create", folder[1])
        made.must("systemctl", "daemon-reload")
        version = made.must("systemctl", "--version").splitlines()[0]
        print(f"\n{version}; {made.must('sh', '-c', '. /etc/os-release; echo $PRETTY_NAME').strip()}")  # noqa: T201
        yield made


@pytest.fixture
def running(system: System) -> System:
    """The system with the unit as it is shipped, running."""
    system.must("rm", "-rf", "/etc/systemd/system/gua.service.d")
    system.write("/etc/gua/agent.env", SETTINGS.encode())
    system.write(SCENARIO, Scenario(CARDS).text().encode())
    system.must("systemctl", "daemon-reload")
    system("systemctl", "reset-failed", "gua")
    system.must("systemctl", "start", "gua")
    return system


def status(system: System, *, user: str = "nobody") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(system("/opt/gua/bin/gua", "status", "--json", user=user).stdout)
    return found


def ticks(system: System) -> int:
    return int(status(system)["ticks"]["made"])


def owner(system: System) -> str:
    """Return the uid that the agent runs as."""
    (pid,) = system.shown("gua", "MainPID")
    return system.must("stat", "--format", "%u", f"/proc/{pid}").strip()


def drop_in(system: System, text: str) -> None:
    system.write("/etc/systemd/system/gua.service.d/test.conf", f"[Service]\n{text}\n".encode())
    system.must("systemctl", "daemon-reload")


def test_systemd_verifies_it_and_says_how_exposed_it_is(system: System) -> None:
    checked = system("systemd-analyze", "verify", "gua.service")
    assert checked.returncode == 0, checked.stderr
    assert not checked.stderr, checked.stderr
    last_line = system.must("systemd-analyze", "security", "--no-pager", "gua.service").splitlines()[-1]
    print(f"\n{last_line}")  # noqa: T201 - what make test -s shows
    score = re.search(r"exposure level for gua\.service: ([\d.]+)", last_line)
    assert score is not None, last_line
    assert float(score[1]) <= MOST_EXPOSED


def test_the_service_is_ready_when_start_returns_and_has_no_privileges(running: System) -> None:
    state, pid, user, text = running.shown("gua", "ActiveState", "MainPID", "User", "StatusText")
    assert (state, user) == ("active", "gua")
    assert text == "sampling every 1 s"
    process = dict(line.split(":\t", 1) for line in running.must("cat", f"/proc/{pid}/status").splitlines())
    assert {int(number) for number in process["Uid"].split()} & {0} == set()
    assert {int(process[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert (process["NoNewPrivs"], process["Seccomp"]) == ("1", "2")


def test_its_folders_are_as_the_unit_says(running: System) -> None:
    def found(name: str) -> str:
        return running.must("stat", "--format", "%a %u", name).strip()

    uid = owner(running)
    assert uid != "0"
    assert found(HOME) == f"700 {uid}"
    assert running.must("readlink", "/var/lib/gua").strip() == "private/gua"
    assert found("/run/gua") == f"755 {uid}"
    assert found("/run/gua/agent.sock").split()[1] == uid
    assert found("/run/gua-allocations") == "755 0"
    modes = {line.split()[0] for line in running.must("find", HOME, "-printf", "%m %p\\n").splitlines()}
    assert not {mode for mode in modes if not mode.endswith("00")}, "nobody else may read anything of it"


def test_any_user_can_query_the_agent_and_its_ticks_reach_the_embedded_store(running: System) -> None:
    poll(lambda: ticks(running) >= 3, "three ticks", seconds=120)
    report = running.must("/opt/gua/bin/gua", "report", "--json", user="nobody")
    assert json.loads(report)["headline"]["card_ticks"] >= 2


def test_it_reads_the_allocations_that_hooks_leave(running: System) -> None:
    allocation = {"source": "other", "id": "7", "cards": [0], "owner": "alice", "since": int(time.time())}
    running.write("/run/gua-allocations/other-7.json", json.dumps(allocation).encode())
    poll(lambda: "alice" in json.dumps(status(running)), "the allocation to be shown", seconds=60)
    running.must("rm", "/run/gua-allocations/other-7.json")


def test_it_may_not_write_elsewhere_nor_see_homes(running: System) -> None:
    (pid,) = running.shown("gua", "MainPID")
    inside = ("nsenter", "--target", pid, "--mount", "--setuid", "65534", "--")
    for folder in ("/etc", "/usr", "/opt", "/var/log", "/run/gua-allocations"):
        assert running(*inside, "touch", f"{folder}/made").returncode
    options = running.must("cat", f"/proc/{pid}/mountinfo")
    assert re.search(r" / / ro,", options) or re.search(r" /(opt|usr) ro,", options), options
    homes = running.must("nsenter", "--target", pid, "--mount", "ls", "-A", "/root", "/home")
    assert homes.split() == ["/home:", "/root:"]


def test_killed_it_is_started_again_and_goes_on(running: System) -> None:
    (before,) = running.shown("gua", "NRestarts")
    running.must("systemctl", "kill", "--signal=KILL", "gua")
    poll(lambda: running.shown("gua", "NRestarts", "SubState") == [str(int(before) + 1), "running"], "it", seconds=120)
    assert running("journalctl", "--unit=gua", "--no-pager").stdout.count("Traceback") == 0


def test_a_loop_that_hangs_is_ended_by_the_watchdog_and_started_again(running: System) -> None:
    running.must("systemctl", "stop", "gua")
    drop_in(running, "WatchdogSec=15s\nRestartSec=1s")
    running.must("systemctl", "start", "gua")
    (pid,) = running.shown("gua", "MainPID")
    begun = time.monotonic()
    running.must("systemctl", "kill", "--signal=STOP", "--kill-whom=main", "gua")
    poll(lambda: running.shown("gua", "MainPID")[0] not in {pid, "0"}, "the watchdog", seconds=120)
    print(f"\nhung at once, another agent {time.monotonic() - begun:.0f} s later (WatchdogSec=15s)")  # noqa: T201
    assert "atchdog timeout" in running.must("journalctl", "--unit=gua", "--no-pager")
    assert not running.must("sh", "-c", "ls /var/lib/systemd/coredump 2>/dev/null; true")


def test_fed_the_watchdog_leaves_it_alone(running: System) -> None:
    running.must("systemctl", "stop", "gua")
    drop_in(running, "WatchdogSec=15s")
    running.must("systemctl", "start", "gua")
    (pid,) = running.shown("gua", "MainPID")
    time.sleep(25)
    assert running.shown("gua", "MainPID", "ActiveState") == [pid, "active"]


def test_an_invalid_setting_is_logged_and_the_service_is_not_restarted(running: System) -> None:
    running.must("systemctl", "stop", "gua")
    running.write("/etc/gua/agent.env", SETTINGS.replace("=1s", "=often").encode())
    assert running("systemctl", "start", "gua").returncode
    state, result, code, restarts = running.shown("gua", "ActiveState", "Result", "ExecMainStatus", "NRestarts")
    assert (state, result, code, restarts) == ("failed", "exit-code", "2", "0")
    assert "often" in running.must("journalctl", "--unit=gua", "--no-pager", "--lines=20")


def test_without_a_driver_it_is_tried_until_there_is_one(running: System) -> None:
    running.must("systemctl", "stop", "gua")
    drop_in(running, "RestartSec=1s")
    running.write(SCENARIO, f"unload 9\n{Scenario(CARDS).text()}".encode())
    running.must("systemctl", "start", "--no-block", "gua")
    poll(lambda: int(running.shown("gua", "NRestarts")[0]) >= 2, "two tries", seconds=120)
    running.write(SCENARIO, Scenario(CARDS).text().encode())
    poll(lambda: running.shown("gua", "ActiveState", "SubState") == ["active", "running"], "a start", seconds=120)


def test_a_hidden_proc_of_processes_is_not_its_own(running: System) -> None:
    (pid,) = running.shown("gua", "MainPID")
    seen = running.must("nsenter", "--target", pid, "--mount", "ls", "/proc").split()
    assert "1" in seen, "it must see processes of all users"


def test_stop_ends_it_well_and_keeps_the_state(running: System) -> None:
    poll(lambda: ticks(running) >= 2, "two ticks", seconds=60)
    begun = time.monotonic()
    running.must("systemctl", "stop", "gua")
    print(f"\nstopped in {time.monotonic() - begun:.1f} s")  # noqa: T201 - what make test -s shows
    state, result, code = running.shown("gua", "ActiveState", "Result", "ExecMainStatus")
    assert (state, result, code) == ("inactive", "success", "0")
    assert running("test", "-e", "/run/gua").returncode, "a runtime directory ends with its service"
    assert "spool.db" in running.must("ls", HOME)
    running.must("systemctl", "start", "gua")
    assert running.must("stat", "--format", "%u", f"{HOME}/spool.db").strip() == owner(running)


def test_gua_stop_ends_it_and_systemd_leaves_it_ended(running: System) -> None:
    running.must("/opt/gua/bin/gua", "stop", "--state-dir", "/var/lib/gua")
    poll(lambda: running.shown("gua", "ActiveState") == ["inactive"], "its end", seconds=60)
    time.sleep(12)
    assert running.shown("gua", "ActiveState", "Result") == ["inactive", "success"]
