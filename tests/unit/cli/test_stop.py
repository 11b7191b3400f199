from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from gua.cli.main import main
from gua.procfs.reader import ProcessRecord, ProcFs
from gua.state.pid_file import running

SOMEBODY = 65534
AGENT = """
import os, signal, sys, time
from pathlib import Path
from gua.state.host_lock import HostLock
from gua.state.pid_file import AgentRecord, PidFile
from gua.procfs.reader import ProcFs

home, manner = Path(sys.argv[1]), sys.argv[2]
if manner == "another user's":
    os.setuid(65534)
file, lock, host = PidFile(home / "agent.pid"), HostLock.of(os.environ), ProcFs()
me = host.process(os.getpid())
lock.acquire()
file.acquire(
    AgentRecord(
        pid=os.getpid(),
        start_ticks=me.start_ticks,
        boot_id=host.boot_id(),
        started_ms=1,
        version="0.1.0",
        supervised=manner == "supervised",
    )
)
if manner == "hung":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    def finish(*_):
        time.sleep(0.05)
        file.release()
        sys.exit(0)
    signal.signal(signal.SIGTERM, finish)
print("up", flush=True)
while True:
    time.sleep(60)
"""


class Agent:
    """A process that behaves as the agent does towards ``gua stop``."""

    started: ClassVar[list[Agent]] = []

    def __init__(self, home: Path, manner: str = "good") -> None:
        self.started.append(self)
        self.process = subprocess.Popen([sys.executable, "-c", AGENT, str(home), manner], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"up\n"
        self.pid = self.process.pid


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GUA_HOST_LOCK", f"gua-test-{uuid.uuid4()}")
    monkeypatch.setenv("GUA_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    while Agent.started:
        process = Agent.started.pop().process
        process.kill()
        process.communicate()


def test_an_agent_is_stopped_and_everything_is_free_again(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = Agent(home)
    assert main(["stop"]) == 0
    assert capsys.readouterr() == (f"gua agent stopped: pid {agent.pid}\n", "")
    assert agent.process.wait(timeout=60) == 0
    assert list(home.iterdir()) == []
    again = Agent(home)
    assert main(["stop", "--state-dir", str(home)]) == 0
    assert again.process.wait(timeout=60) == 0


def test_where_none_runs_there_is_nothing_to_do(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stop"]) == 0
    assert main(["stop", "--pid-file", "/nowhere/agent.pid"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"no gua agent was running ({home}/agent.pid)",
        "no gua agent was running (/nowhere/agent.pid)",
    ]


def test_an_agent_that_was_killed_leaves_nothing_to_stop(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = Agent(home)
    agent.process.kill()
    agent.process.wait()
    assert main(["stop"]) == 0
    assert "no gua agent was running" in capsys.readouterr().out
    assert (home / "agent.pid").exists()


def test_an_agent_elsewhere_on_this_host_is_named(
    home: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    agent = Agent(elsewhere)
    assert main(["stop"]) == 3
    assert f"another one (pid {agent.pid}, user " in capsys.readouterr().err
    assert agent.process.poll() is None
    assert main(["stop", "--pid-file", str(elsewhere / "agent.pid")]) == 0
    assert str(home) not in capsys.readouterr().out


def test_an_agent_that_hangs_in_the_driver_is_left_with_advice(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = Agent(home, "hung")
    assert main(["stop", "--timeout", "100ms"]) == 3
    error = capsys.readouterr().err
    assert error.startswith(f"gua: the agent (pid {agent.pid}) still runs after 100ms")
    assert f"kill -9 {agent.pid}" in error
    assert agent.process.poll() is None
    agent.process.kill()
    agent.process.wait()
    assert main(["stop"]) == 0


def test_stopping_a_supervised_agent_names_the_systemctl_command(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Agent(home, "supervised")
    assert main(["stop"]) == 0
    assert "systemctl stop gua" in capsys.readouterr().err


@pytest.mark.parametrize("timeout", ["0s", "soon", "-1s"])
def test_a_timeout_that_is_none_is_refused(home: Path, timeout: str) -> None:
    assert main(["stop", "--state-dir", str(home), f"--timeout={timeout}"]) == 2


def record(pid: int) -> dict[str, object]:
    process = ProcFs().process(pid)
    assert process is not None
    return {
        "pid": pid,
        "start_ticks": process.start_ticks,
        "boot_id": ProcFs().boot_id(),
        "started_ms": 1,
        "version": "0.1.0",
        "supervised": False,
        "host": "gpu01",
    }


def test_a_process_that_merely_has_the_number_is_not_ended(home: Path) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    (home / "agent.pid").write_text(json.dumps(record(bystander.pid)))
    assert main(["stop"]) == 0
    with (home / "agent.pid").open("r+") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        holder.write(json.dumps({**record(bystander.pid), "start_ticks": 1}))
        holder.flush()
        assert main(["stop"]) == 0
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_a_symbolic_link_as_pid_file_stops_no_agent(home: Path) -> None:
    agent = Agent(home)
    (home / "agent.pid").rename(home / "real.pid")
    (home / "agent.pid").symlink_to("real.pid")
    assert main(["stop"]) == 3
    assert agent.process.poll() is None
    agent.process.kill()
    agent.process.wait()


if os.geteuid() == 0:  # nobody else can be, or own things of, another user

    class OfAnybody(ProcFs):
        """No process's user is known."""

        def process(self, pid: int) -> ProcessRecord | None:
            process = super().process(pid)
            return None if process is None else replace(process, uid=None)

    def test_a_user_cannot_make_root_end_somebody_elses_process(home: Path) -> None:
        victim = subprocess.Popen(["sleep", "60"])
        path = home / "agent.pid"
        path.write_text(json.dumps(record(victim.pid)))
        os.chown(path, SOMEBODY, -1)
        with path.open() as holder:
            fcntl.flock(holder, fcntl.LOCK_EX)
            assert running(path, OfAnybody()) is not None, "root looks at everybody's files"
            assert main(["stop"]) == 0
        assert victim.poll() is None
        victim.kill()
        victim.wait()


def ticks(pid: int) -> int | None:
    process = ProcFs().process(pid)
    return None if process is None else process.start_ticks


if os.geteuid() == 0:  # nobody else can be, or own things of, another user

    def test_root_stops_the_agent_of_a_user_and_a_user_not_that_of_root(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GUA_HOST_LOCK", f"gua-test-{uuid.uuid4()}")
        with tempfile.TemporaryDirectory() as above:
            place = Path(above) / "gua"
            place.mkdir(mode=0o700)
            Path(above).chmod(0o711)
            os.chown(place, SOMEBODY, SOMEBODY)
            theirs = Agent(place, "another user's")
            assert main(["stop", "--state-dir", str(place)]) == 0
            assert theirs.process.wait(timeout=60) == 0

            Path(above).chmod(0o755)
            place.chmod(0o755)
            roots = Agent(place)
            (place / "agent.pid").chmod(0o644)
            script = (
                "import os, sys\nfrom pathlib import Path\nfrom gua.cli import stop\n"
                "from gua.core.errors import UnavailableError\n"
                "os.setuid(65534)\n"  # only now: this Python may lie where the user cannot read
                "try:\n    stop.command(state_dir=Path(sys.argv[1]))\n"
                "except UnavailableError as error:\n    print(error)\n"
            )
            command = [sys.executable, "-c", script, str(place)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            assert done.stdout.startswith(
                f"the agent (pid {roots.pid}) belongs to root: sudo gua stop --pid-file {place}"
            )
            (place / "agent.pid").chmod(0o600)
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            assert done.stdout.startswith(f"may not read {place}/agent.pid: it belongs to another user")
            assert roots.process.poll() is None
            roots.process.kill()
            roots.process.wait()

    def test_an_inaccessible_state_directory_is_reported_as_another_users() -> None:
        script = (
            "import os, sys\nfrom gua.cli.main import main\n"
            "main(['stop', '--state-dir', '/nowhere'])\n"
            "os.setuid(65534)\n"  # only now, as above
            "sys.exit(main(['stop', '--state-dir', sys.argv[1]]))\n"
        )
        with tempfile.TemporaryDirectory() as roots:
            done = subprocess.run(
                [sys.executable, "-c", script, roots],
                env={**os.environ, "GUA_HOST_LOCK": f"gua-test-{uuid.uuid4()}"},
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        assert done.returncode == 3
        assert done.stderr.startswith(f"gua: may not read {roots}/agent.pid: it belongs to another user")


def test_a_kernel_without_process_descriptors_is_served_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    agent = Agent(home)
    assert main(["stop"]) == 0
    assert agent.process.wait(timeout=60) == 0
    hung = Agent(home, "hung")
    began = time.monotonic()
    assert main(["stop", "--timeout", "100ms"]) == 3
    assert time.monotonic() - began < 30
    hung.process.kill()
    hung.process.wait()
