from __future__ import annotations

import fcntl
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from gua.core.errors import UnavailableError
from gua.procfs.reader import ProcessRecord, ProcFs
from gua.state.pid_file import AgentRecord, PidFile, RunningAgent, running

BOOT = "0c314e96-dae0-4ad6-957a-c83a11f47deb"
TICKS = 4711
STARTED_MS = 1_774_414_039_000
AGENT = """
import sys
import threading
from pathlib import Path
import os
from gua.state.pid_file import AgentRecord, PidFile
file = PidFile(Path(sys.argv[1]))
ticks, boot_id = int(sys.argv[2]), sys.argv[3]
file.acquire(AgentRecord(pid=os.getpid(), start_ticks=ticks, boot_id=boot_id, started_ms=1, version="0.1.0"))
print("held", flush=True)
sys.stdin.read()
file.release()
"""


def own_record(boot_id: str | None = BOOT) -> AgentRecord:
    return AgentRecord(
        pid=os.getpid(),
        start_ticks=TICKS,
        boot_id=boot_id,
        started_ms=STARTED_MS,
        version="0.1.0",
        host=platform.node(),
    )


def acquire(path: Path, boot_id: str | None = BOOT) -> PidFile:
    file = PidFile(path, sleep=lambda _seconds: None)
    file.acquire(own_record(boot_id))
    return file


class Processes(ProcFs):
    """Every process began at one moment."""

    def __init__(self, start_ticks: int | None, boot_id: str | None) -> None:
        super().__init__()
        self._start_ticks = start_ticks
        self._boot_id = boot_id

    def boot_id(self) -> str | None:
        return self._boot_id

    def process(self, pid: int) -> ProcessRecord | None:
        if self._start_ticks is None:
            return None
        return ProcessRecord(pid=pid, comm="gua", start_ticks=self._start_ticks, uid=None, cgroup=None)


def seen(path: Path, start_ticks: int | None = TICKS, boot_id: str | None = BOOT) -> RunningAgent | None:
    return running(path, Processes(start_ticks, boot_id))


def started(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", AGENT, str(path), str(TICKS), BOOT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.pid"


def test_an_agent_is_seen_from_its_start_to_its_end(path: Path) -> None:
    assert seen(path) is None
    file = acquire(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert seen(path) == RunningAgent(
        pid=os.getpid(),
        start_ticks=TICKS,
        boot_id=BOOT,
        started_ms=STARTED_MS,
        version="0.1.0",
        supervised=False,
        host=platform.node(),
        owner_uid=os.getuid(),
    )
    file.release()
    file.release()
    assert not path.exists()
    assert seen(path) is None
    acquire(path).release()


def test_a_second_agent_is_refused_with_the_number_of_the_first(path: Path) -> None:
    process = started(path)
    with pytest.raises(UnavailableError, match=rf"runs already \(pid {process.pid}, .+\): .+gua stop"):
        acquire(path)
    assert seen(path) is not None
    process.communicate()
    assert not path.exists()


def test_after_kill_9_the_pid_file_identifies_no_agent_and_blocks_none(path: Path) -> None:
    process = started(path)
    process.kill()
    process.communicate()
    assert json.loads(path.read_text())["pid"] == process.pid
    assert seen(path) is None
    file = acquire(path)
    assert seen(path) is not None
    file.release()


def test_a_command_that_the_agent_started_does_not_hold_the_file(path: Path) -> None:
    file = acquire(path)
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False)
    file.release()
    acquire(path).release()
    assert child.poll() is None
    child.communicate()


def test_the_number_of_another_live_process_is_not_trusted(path: Path) -> None:
    file = acquire(path)
    assert seen(path, start_ticks=TICKS + 1) is None
    assert seen(path, start_ticks=None) is None
    assert seen(path, boot_id="another boot") is None
    file.release()
    path.write_text(json.dumps({**record(), "pid": os.getppid()}))
    assert seen(path) is None, "nobody holds the lock"


def record() -> dict[str, object]:
    return {
        "pid": os.getpid(),
        "start_ticks": TICKS,
        "boot_id": BOOT,
        "started_ms": STARTED_MS,
        "version": "0.1.0",
        "supervised": False,
        "host": "gpu01",
    }


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1\n",
        b"garbage",
        b"\x00\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b"[" * 4000,
        b'{"pid": 1e999}',
        b"9" * 4300,
        *(
            json.dumps({**record(), key: value}).encode()
            for key, value in [
                ("pid", -1),
                ("pid", 0),
                ("pid", 2**31),
                ("pid", "1"),
                ("pid", True),
                ("pid", 1.0),
                ("start_ticks", None),
                ("start_ticks", -1),
                ("started_ms", "now"),
                ("boot_id", 1),
                ("version", None),
                ("supervised", "yes"),
                ("host", 1),
            ]
        ),
    ],
    # Their own would name this process, and each worker collects for itself.
    ids=count(),
)
def test_a_damaged_pid_file_identifies_no_agent_even_if_it_is_locked(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
    with path.open("r+b") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        assert seen(path) is None
        with pytest.raises(UnavailableError, match="another process holds"):
            acquire(path)
    file = acquire(path)
    assert seen(path) is not None
    file.release()


def test_an_agent_on_another_host_that_shares_the_disk_is_identified(path: Path) -> None:
    path.write_text(json.dumps({**record(), "boot_id": "that host's", "host": "gpu\x1b[2J02"}))
    with path.open("r+b") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(UnavailableError, match=r"an agent on gpu\[2J02 \(pid \d+ there\) uses .+--state-dir"):
            acquire(path)


def test_a_symbolic_link_is_neither_written_nor_believed(path: Path) -> None:
    victim = path.with_name("victim")
    victim.write_text("precious")
    path.symlink_to(victim)
    with pytest.raises(UnavailableError, match="is a symbolic link"):
        acquire(path)
    file = acquire(path.with_name("real.pid"))
    path.unlink()
    path.symlink_to("real.pid")
    assert seen(path) is None
    file.release()
    assert victim.read_text() == "precious"


def test_a_file_with_a_second_name_is_neither_written_nor_believed(path: Path) -> None:
    path.with_name("victim").write_text("precious")
    path.hardlink_to(path.with_name("victim"))
    with pytest.raises(UnavailableError, match="hard link"):
        acquire(path)
    assert path.read_text() == "precious"
    assert seen(path) is None


def test_what_is_no_file_is_refused_without_waiting(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(UnavailableError, match="is not a regular file"):
        acquire(path)
    assert seen(path) is None
    path.unlink()
    path.mkdir()
    with pytest.raises(UnavailableError, match=r"cannot open .+ \(Is a directory\)"):
        acquire(path)
    assert seen(path) is None


def test_a_file_that_others_may_write_is_not_believed(path: Path) -> None:
    file = acquire(path)
    path.chmod(0o622)
    assert seen(path) is None
    file.release()


if os.geteuid() == 0:  # only root can become, or own things of, another user

    def test_a_file_of_another_user_is_not_taken_over(path: Path) -> None:
        path.write_text("")
        os.chown(path, 65534, -1)
        with pytest.raises(UnavailableError, match="belongs to uid 65534, not to uid 0"):
            acquire(path)


def test_a_directory_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"cannot open .+ \(No such file or directory\)"):
        acquire(tmp_path / "gone" / "agent.pid")
    assert seen(tmp_path / "gone" / "agent.pid") is None


def test_only_the_own_file_is_removed_at_the_end(path: Path) -> None:
    file = acquire(path)
    path.unlink()
    path.write_text("another's")
    file.release()
    assert path.read_text() == "another's"


def test_somebody_who_looks_while_the_agent_starts_does_not_stop_it(path: Path) -> None:
    path.touch(mode=0o600)
    with path.open("rb") as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        file = PidFile(path, sleep=lambda _seconds: fcntl.flock(reader, fcntl.LOCK_UN))
        file.acquire(own_record())
    assert seen(path) is not None
    file.release()


def test_a_file_that_its_last_agent_just_removed_is_not_the_one_to_lock(path: Path) -> None:
    first = acquire(path)
    second = PidFile(path, sleep=lambda _seconds: first.release())
    second.acquire(replace(own_record(), started_ms=2))
    agent = seen(path)
    assert agent is not None
    assert agent.started_ms == 2
    second.release()


def test_whoever_starts_at_the_same_time_only_one_is_the_agent(path: Path) -> None:
    wrong: list[str] = []

    def start_and_end() -> None:
        for _ in range(60):
            file = PidFile(path, sleep=lambda _seconds: None)
            try:
                file.acquire(own_record())
            except UnavailableError:
                continue
            if seen(path) is None:
                wrong.append("the path names a file that nobody holds")
            file.release()

    threads = [threading.Thread(target=start_and_end) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_system_without_a_boot_id_still_knows_its_agent(path: Path) -> None:
    file = acquire(path, boot_id=None)
    assert seen(path, boot_id=None) is not None
    assert seen(path) is None
    file.release()


def test_a_full_disk_at_the_start_is_one_line_and_holds_nothing(path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(UnavailableError, match=r"cannot write .+ \(File too large\): make room"):
            acquire(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    acquire(path).release()
