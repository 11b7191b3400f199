from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gua.agent.background import Ready, detach
from gua.core.errors import UsageError
from servers.process import poll

# As a command does it: print and end in one process, go on in the other.
COMMAND = """
import json, os, sys, time
from pathlib import Path
from gua.agent.background import Launched, detach
from gua.core.errors import DataError, GuaError, UnavailableError, UsageError

print("unflushed", end="")
try:
    launched = detach(Path("agent.log"), patience_seconds=float(sys.argv[2]))
except GuaError as error:
    print(f"gua: {error}", file=sys.stderr)
    sys.exit(error.exit_code)
if isinstance(launched, Launched):
    print(launched.text)
    sys.exit(0 if launched.ready else 9)
with launched:
    exec(sys.argv[1])
"""
ABOUT = """
print("to stdout", flush=True)
print("to stderr", file=sys.stderr)
about = dict(
    pid=os.getpid(), session=os.getsid(0), parent=os.getppid(), directory=os.getcwd(), umask=os.umask(0o77),
    streams=[os.readlink(f"/proc/self/fd/{number}") for number in (0, 1, 2)],
    open=sorted(int(number) for number in os.listdir("/proc/self/fd"))[3:-1],
)
launched.ready(json.dumps(about))
time.sleep(60)
"""


def gua(
    folder: Path, body: str, *, patience_seconds: float = 120, **options: object
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [sys.executable, "-c", COMMAND, body, str(patience_seconds)],
        cwd=folder,
        text=True,
        timeout=150,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        **{"capture_output": True, **options},
    )


@contextlib.contextmanager
def ended(pid: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)


def test_the_agent_goes_on_as_a_process_of_its_own(tmp_path: Path) -> None:
    held = tmp_path / "held"
    with held.open("w") as shell:
        fcntl.flock(shell, fcntl.LOCK_EX)
        # A descriptor that the shell passes on, as flock(1) does, and a terminal that is closed afterwards.
        os.set_inheritable(shell.fileno(), True)  # noqa: FBT003 - it has no name
        done = gua(tmp_path, ABOUT, close_fds=False)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.startswith("unflushed{"), "and not twice"
    about = json.loads(done.stdout.removeprefix("unflushed"))
    with ended(about["pid"]):
        log = tmp_path / "agent.log"
        assert about["session"] not in {os.getsid(0), about["pid"]}
        assert about["parent"] != os.getpid()
        assert (about["directory"], about["umask"]) == ("/", 0o77)
        assert about["streams"] == ["/dev/null", str(log), str(log)]
        assert len(about["open"]) == 1, "only the pipe to the process that was typed"
        assert log.read_text() == "to stdout\nto stderr\n"
        assert log.stat().st_mode & 0o777 == 0o600
        with held.open() as again:
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        ("UnavailableError('no driver: load it')", "gua: no driver: load it\n", 3),
        ("UsageError('--interval \\n0s')", "gua: --interval \n0s\n", 2),
        ("DataError('refused')", "gua: refused\n", 4),
        ("OSError(28, 'No space left on device', '/var/spool')", "gua: No space left on device: /var/spool\n", 3),
    ],
)
def test_an_error_that_stops_the_agents_start_is_printed_to_the_calling_terminal(
    tmp_path: Path, error: str, message: str, code: int
) -> None:
    done = gua(tmp_path, f"raise {error}")
    assert (done.stderr, done.returncode) == (message, code)


@pytest.mark.parametrize("death", ["1/0", "os._exit(0)", "os.kill(os.getpid(), 9)", "sys.exit(1)"])
def test_an_agent_that_ends_without_a_word_points_to_its_log(tmp_path: Path, death: str) -> None:
    done = gua(tmp_path, death)
    assert done.returncode == 3
    assert "ended before it was ready: see the end of agent.log" in done.stderr
    assert ("ZeroDivisionError" in (tmp_path / "agent.log").read_text()) == (death == "1/0")


def test_a_driver_that_takes_long_does_not_hold_the_terminal(tmp_path: Path) -> None:
    done = gua(tmp_path, "time.sleep(60)", patience_seconds=0.1)
    assert done.returncode == 9
    pid = int(done.stdout.split("pid ")[1].split(";")[0])
    with ended(pid):
        assert done.stdout == f"unflushedgua agent is still starting: pid {pid}; see gua status and agent.log\n"


def test_an_agent_whose_starting_command_was_killed_starts_all_the_same(tmp_path: Path) -> None:
    body = "open(sys.argv[3] + '-soon', 'w'); time.sleep(0.3); launched.ready('up'); open(sys.argv[3], 'w')"
    mark = tmp_path / "up"
    typed = subprocess.Popen([sys.executable, "-c", COMMAND, body, "20", str(mark)], cwd=tmp_path)
    while not (tmp_path / "up-soon").exists():
        time.sleep(0.01)
    typed.kill()
    typed.wait()
    poll(mark.exists, "the agent to be up")


def test_closed_standard_streams_are_no_trap(tmp_path: Path) -> None:
    body = "launched.ready('up'); open(sys.argv[3], 'w').write(os.readlink('/proc/self/fd/1'))"
    mark = tmp_path / "up"
    subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "-", sys.executable, "-c", COMMAND, body, "20", str(mark)],
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    poll(lambda: mark.exists() and mark.read_text(), "the agent to be up")
    assert mark.read_text() == str(tmp_path / "agent.log")


def test_a_log_that_cannot_be_opened_is_one_line_and_no_agent(tmp_path: Path) -> None:
    (tmp_path / "agent.log").symlink_to("/etc/passwd")
    done = gua(tmp_path, "launched.ready('up')")
    assert (done.stdout, done.returncode) == ("unflushed", 3)
    assert done.stderr.startswith("gua: agent.log is a symbolic link")


def test_with_a_second_thread_nothing_is_forked(tmp_path: Path) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        with pytest.raises(RuntimeError, match="before any thread"):
            detach(tmp_path / "agent.log")
    finally:
        stop.set()
        thread.join()
    assert not (tmp_path / "agent.log").exists()


def test_in_the_foreground_ready_and_failed_notify_no_one() -> None:
    with Ready() as ready:
        ready.ready("up")
        ready.failed("down", 3)
    with pytest.raises(UsageError), Ready():
        raise UsageError


def test_only_the_first_word_counts() -> None:
    hearing, writing = os.pipe()
    ready = Ready(writing)
    ready.ready("up")
    ready.failed("down", 3)
    ready.ready("again")
    with os.fdopen(hearing) as file:
        assert [json.loads(line) for line in file] == [{"ready": "up"}]
