"""``gua top`` as people start it: on a terminal, through a pipe, from the agent and from a store."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from fakes.top import status
from gua.app import delivery
from gua.cli.main import main
from gua.core.tick import Tick
from gua.core.words import Source
from gua.local_socket.server import Listen, LocalServer
from gua.otlp.resource import origin
from gua.sim.host import simulate_from
from servers.user import shared_folder

INTERVAL_MS = 30_000
PATIENCE_SECONDS = 20.0
LEAVE = "\x1b[?25h\x1b[?1049l"


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with shared_folder() as made:
        for name in [name for name in os.environ if name.startswith("GUA_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("GUA_HOME", str(made / "home"))
        monkeypatch.setenv("HOME", str(made))
        monkeypatch.setenv("GUA_HOST_LOCK", f"test-{os.getpid()}-{made.name}")
        monkeypatch.setenv("GUA_RUN_DIR", str(made / "run"))
        yield made


@contextlib.contextmanager
def agent(folder: Path, reported: dict[str, Any]) -> Iterator[Path]:
    """Answer as an agent does; the status may change meanwhile."""
    socket = folder / "agent.sock"
    server = LocalServer(listen=[Listen(path=socket)], status=lambda: reported, answer=None)
    server.start()
    try:
        yield socket
    finally:
        server.close()


@dataclass
class Terminal:
    """A process on a pseudo-terminal, and all that it wrote."""

    process: subprocess.Popen[bytes]
    master: int
    slave: int
    written: str = ""
    before: list[Any] = field(default_factory=list)

    def expect(self, pattern: str) -> None:
        """Read until what was written since the last call has the pattern."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        fresh = ""
        while not re.search(pattern, fresh):
            assert time.monotonic() < deadline, f"no {pattern!r} in {fresh!r}"
            fresh += self.read()

    def read(self) -> str:
        """Return what there is to read within a while."""
        waiting = select.poll()  # select takes no descriptor above 1,023
        waiting.register(self.master, select.POLLIN)
        if not waiting.poll(200):
            return ""
        text = os.read(self.master, 65536).decode()
        self.written += text
        return text

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def end(self) -> int:
        """Return the exit code, and read the rest."""
        code = self.process.wait(PATIENCE_SECONDS)
        while self.read():
            pass
        return code


@contextlib.contextmanager
def terminal(
    *arguments: str,
    command: Sequence[str] = (sys.executable, "-m", "gua", "top"),
    columns: int = 100,
    lines: int = 30,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    before = termios.tcgetattr(slave)
    # Python reads these two first, and the test's own may be set.
    inherited = {key: value for key, value in os.environ.items() if key not in {"COLUMNS", "LINES", "NO_COLOR"}}
    process = subprocess.Popen(
        [*command, *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**inherited, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **(environment or {})},
    )
    held = Terminal(process, master, slave, before=before)
    try:
        yield held
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(master)
        os.close(slave)


def is_as_before(held: Terminal) -> bool:
    """Return whether the terminal was given back: its modes, its cursor, its screen, and no colour left on."""
    return termios.tcgetattr(held.slave) == held.before and held.written.count(LEAVE) == held.written.count(
        "\x1b[?1049h"
    )


def test_keys_change_what_a_real_terminal_shows_and_q_gives_it_back(folder: Path) -> None:
    with agent(folder, status()) as socket, terminal("--socket", str(socket), "--interval", "1s") as held:
        held.expect(r"1 GPU of gpu-1: 1 .*idle-held")
        assert termios.tcgetattr(held.slave) != held.before
        held.press("s")
        held.expect(r"by memory")
        held.press("5")
        held.expect(r"by program")
        held.press("/nobody")
        held.expect(r"/nobody_")
        held.press("\r")
        held.expect(r"no process holds any of these cards")
        held.press("\x1b")
        held.expect(r"alice/python")
        held.press("h")
        held.expect(r"any key leaves it")
        held.press(" ")
        held.expect(r"alice/python")
        held.press("p")
        held.expect(r"PAUSED")
        held.press("q")
        assert held.end() == 0
        assert is_as_before(held)


def test_changes_are_shown_and_after_the_agent_ends_cards_become_unobserved(folder: Path) -> None:
    reported = status(agent={"host": "gpu-1", "interval_seconds": 1.0})
    reported["cards"][0]["sample_age_seconds"] = 0.0
    with contextlib.ExitStack() as running:
        socket = running.enter_context(agent(folder, reported))
        held = running.enter_context(terminal("--socket", str(socket), "--interval", "100ms"))
        held.expect(r"alice/python")
        reported["cards"][0]["holders"][0]["owner"] = "bob"
        held.expect(r"bob/python")
        (folder / "agent.sock").unlink()
        held.expect(r"no news since .*no agent listens")
        held.expect(r"unobserved")
        held.press("q")
        assert held.end() == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 0)])
def test_a_signal_gives_the_terminal_back(folder: Path, number: signal.Signals, code: int) -> None:
    with agent(folder, status()) as socket, terminal("--socket", str(socket)) as held:
        held.expect(r"alice/python")
        held.process.send_signal(number)
        assert held.end() == code
        assert is_as_before(held)


def test_a_fault_of_our_own_gives_the_terminal_back() -> None:
    code = "from gua.report.top.live import Screen\nwith Screen() as one:\n one.draw(['here'])\n raise RuntimeError"
    with terminal(command=(sys.executable, "-c", code)) as held:
        assert held.end() == 1
        assert "here" in held.written
        assert is_as_before(held)


def test_stopped_by_ctrl_z_it_gives_the_terminal_back_until_it_goes_on(folder: Path) -> None:
    with agent(folder, status()) as socket, terminal("--socket", str(socket)) as held:
        held.expect(r"alice/python")
        held.process.send_signal(signal.SIGTSTP)
        held.expect(re.escape(LEAVE))
        os.waitid(os.P_PID, held.process.pid, os.WSTOPPED | os.WNOWAIT)
        assert termios.tcgetattr(held.slave) == held.before
        held.process.send_signal(signal.SIGCONT)
        held.expect(r"alice/python")
        held.press("q")
        assert held.end() == 0
        assert is_as_before(held)


def test_twenty_columns_and_no_colour_are_enough(folder: Path) -> None:
    narrow = {"columns": 20, "lines": 12}
    with (
        agent(folder, status()) as socket,
        terminal("--socket", str(socket), environment={"NO_COLOR": "1"}, **narrow) as held,
    ):
        held.expect(r"alice")
        held.press("q")
        assert held.end() == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", held.written.replace("\x1b[H", "\r\n"))
    assert max(len(line.strip("\r")) for line in text.split("\n")) <= 20
    assert not re.search(r"\x1b\[[0-9;]*[1-9][0-9;]*m", held.written)


def test_where_there_is_no_terminal_it_prints_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with agent(folder, status()) as socket:
        assert main(["top", "--socket", str(socket)]) == 0
        shown = capsys.readouterr().out
        assert "\x1b" not in shown
        assert "1 GPU of gpu-1: 1 idle-held" in shown
        assert main(["top", "--socket", str(socket), "--json"]) == 0
        reported = json.loads(capsys.readouterr().out)
    assert (reported["schema"], reported["source"], reported["where"]) == ("gua.top/1", "agent", str(socket))
    assert [one["pid"] for one in reported["holders"]] == [1]


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["--sort", "age"], "--sort 'age' is none of idle, memory", 2),
        (["--interval", "often"], "is not a duration", 2),
        (["--width", "19"], "--width 19 is too narrow", 2),
        (["--store", "chdb:///x", "--socket", "/x"], "give --store or --socket, not both", 2),
        (["--socket", "/nowhere/agent.sock"], "no agent listens at /nowhere/agent.sock", 3),
        ([], "nothing is recorded in", 3),
    ],
)
@pytest.mark.usefixtures("folder")
def test_impossible_arguments_are_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str, code: int
) -> None:
    assert main(["top", *arguments]) == code
    printed = capsys.readouterr().err
    assert words in printed
    assert printed.count("\n") == (1 if arguments else 2)


def test_the_local_agent_is_not_shown_for_another_host(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with agent(folder, status()) as socket:
        assert main(["top", "--socket", str(socket), "--host", "gpu-9"]) == 2
    assert "the agent here is that of gpu-1: name the store" in capsys.readouterr().err


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of a store with the last hour of a simulated host, and one that fell silent before."""
    dsn = f"chdb://{tmp_path_factory.mktemp('top') / 'store'}"
    now_ms = time.time_ns() // 1_000_000
    delivery.deliver([*ticks("live", now_ms), *ticks("silent", now_ms - 3_600_000)], store=dsn)
    return dsn


@pytest.mark.engine
class TestAStore:
    def test_shows_what_a_simulated_host_does_now(self, store: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["top", "--once", "--store", store, "--host", "live", "--json"]) == 0
        reported = json.loads(capsys.readouterr().out)
        assert {card["host"] for card in reported["cards"]} == {"live"}
        assert reported["states"]["unobserved"] == 0
        # What is left of a partitioned GPU is listed, and no card.
        assert sum(reported["states"].values()) == sum(card["mig"] != "parent" for card in reported["cards"]) > 4
        idle = [one["idle_seconds"] for one in reported["holders"] if one["state"] == "idle"]
        assert idle == sorted(idle, reverse=True) != []
        assert main(["top", "--once", "--store", store, "--host", "live", "--only-idle"]) == 0
        shown = capsys.readouterr().out
        assert "idle-held" in shown
        assert "truly-idle " not in shown.split("\n\n")[1]

    def test_cards_and_holders_of_a_silent_host_are_unobserved(
        self, store: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["top", "--once", "--store", store, "--host", "silent", "--json"]) == 0
        reported = json.loads(capsys.readouterr().out)
        assert {card["state"] for card in reported["cards"]} == {"unobserved"}
        assert all(card["state_seconds"] > 3_500 for card in reported["cards"])
        assert {(one["state"], one["idle_seconds"]) for one in reported["holders"]} == {("unobserved", None)}

    def test_knows_which_hosts_it_has(self, store: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["top", "--once", "--store", store, "--host", "gpu-9"]) == 2
        assert "no host 'gpu-9' in this store: it knows live, silent" in capsys.readouterr().err


def ticks(host: str, end_ms: int) -> Iterator[Tick]:
    whence = origin(
        source=Source.SIMULATOR,
        interval_ms=INTERVAL_MS,
        environ={},
        host=host,
        instance_id=host,
        service_version=version("gua-otel"),
    )
    for tick in simulate_from(end_ms - 3_600_000, seed=3, gpus=5, interval_ms=INTERVAL_MS, origin=whence):
        if tick.ts_ms > end_ms:
            return
        yield tick
