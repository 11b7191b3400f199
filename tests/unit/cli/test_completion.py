"""What Tab proposes, in every shell that is here, and what it never does."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.sockets import listening
from fakes.top import card, holder, snapshot
from gua.cli import main as frame
from gua.cli import top
from gua.cli.completion import LIMIT_SECONDS, SHELLS, answer
from gua.report.section_list import section_names

GUA = Path(sys.executable).with_name("gua")
INSTALLED = [shell for shell in SHELLS if shutil.which(shell)]
_CONTROLS = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>])")
FLAGS = {"bash": ["-i"], "zsh": ["-i"], "fish": ["-i", "--private"]}


class Tab:
    """Requests what may stand next on a line, as typer's script for bash does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def proposes(self, line: str) -> list[str]:
        """Return what is proposed for the last word of a line that begins after ``gua``."""
        words = ["gua", *line.split(" ")]
        for name, value in environment_of(words).items():
            self._monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit, match=r"^0$"):
            answer()
        return sorted(self._capsys.readouterr().out.split())


@pytest.fixture
def tab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tab:
    return Tab(monkeypatch, capsys)


def environment_of(words: list[str]) -> dict[str, str]:
    return {"_GUA_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Put two hosts behind every query for names, one with hostile names; return the stores queried."""
    opened_stores: list[str | None] = []
    cards = (card(host="node-1", gpu="GPU-a", index=0), card(host="node-2", gpu="GPU-b", index=1))
    holders = (holder(owner="ana"), holder(owner="bo"), holder(owner="x; reboot"), holder(owner=None))
    evil = (card(host="--store=clickhouse://evil", gpu="$(reboot)", index=None),)
    evil_snapshot = replace(snapshot(cards, holders), cards=cards + evil, holders=holders)

    @contextmanager
    def open_source(store: str | None, _socket: Path | None, _hosts: object) -> Iterator[top.SnapshotSource]:
        opened_stores.append(store)
        yield top.SnapshotSource(query=lambda: evil_snapshot, seconds=1)

    monkeypatch.setattr(top, "open_source", open_source)
    monkeypatch.delenv("GUA_STORE", raising=False)
    return opened_stores


@pytest.mark.parametrize(
    ("line", "proposed"),
    [
        ("rep", ["report"]),
        ("help exp", ["explain", "exporter"]),
        ("--in", ["--install-completion"]),
        ("report --section ti", ["time-of-day", "timeline"]),
        ("report --section=ti", ["time-of-day", "timeline"]),
        ("report --section = ti", ["time-of-day", "timeline"]),  # as bash takes it apart
        ("report --section usage,ti", ["usage,time-of-day", "usage,timeline"]),
        ("demo --section al", ["all", "allocation"]),
        ("report --csv us", ["usage", "usefulness"]),
        ("report --by o", ["owner"]),
        ("report --timezone Europe/Berl", ["Europe/Berlin"]),
        ("report --since y", ["yesterday"]),
        ("report --last", ["--last-week"]),
        ("report --what-if --markd", ["--markdown"]),
        ("top --sort m", ["memory"]),
        ("schema ap", ["apply"]),
        ("schema apply --keep-r", ["--keep-raw"]),
        ("report --html ", []),
        ("import nvidia-smi ", []),
    ],
)
def test_what_may_stand_next_is_proposed(line: str, proposed: list[str], tab: Tab) -> None:
    assert tab.proposes(line) == proposed


def test_every_section_is_proposed(tab: Tab) -> None:
    assert tab.proposes("report --section ") == sorted([*section_names(), "all"])


@pytest.mark.parametrize(
    ("line", "proposed"),
    [
        ("report --host ", ["node-1", "node-2"]),
        ("report --host node-1 --host node-2", ["node-2"]),
        ("explain ", ["GPU-a", "GPU-b", "node-1", "node-2"]),
        ("explain node-2 ", ["1", "GPU-b"]),
        ("explain --width 80 node-2 G", ["GPU-b"]),
        ("top --filter ", ["ana", "bo"]),
    ],
)
def test_completions_come_from_the_store_and_contain_nothing_a_shell_could_run(
    lab: list[str | None], line: str, proposed: list[str], tab: Tab
) -> None:
    assert tab.proposes(line) == proposed
    assert lab == [None]


def test_completion_queries_the_store_on_the_command_line(lab: list[str | None], tab: Tab) -> None:
    tab.proposes("report --store clickhouse://reader@db --host ")
    assert lab == ["clickhouse://reader@db"]


@pytest.mark.parametrize("store", ["clickhouse://127.0.0.1:1", "nonsense://", "chdb:///proc/nowhere"])
def test_completion_prints_nothing_if_no_store_answers(store: str, tmp_path: Path) -> None:
    environ = {**os.environ, "GUA_HOME": str(tmp_path / "home"), "GUA_STORE": store}
    environ |= environment_of(["gua", "report", "--host", ""])
    done = subprocess.run([GUA], env=environ, capture_output=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, b"", b"")
    assert list(tmp_path.iterdir()) == []


def test_an_agent_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    with listening(tmp_path / "agent.sock"):
        environ = {**os.environ, **environment_of(["gua", "explain", ""]), "GUA_HOME": str(tmp_path)}
        environ.pop("GUA_STORE", None)
        begin = time.monotonic()
        done = subprocess.run([GUA], env=environ, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert time.monotonic() - begin >= LIMIT_SECONDS  # it was queried


def installed(shell: str, home: Path) -> dict[str, str]:
    """Teach a shell with a home of its own to complete, and return its environment."""
    home.mkdir(exist_ok=True)
    dropped = {"ZDOTDIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "GUA_STORE", "PS1"}
    environ = {name: value for name, value in os.environ.items() if name not in dropped}
    environ |= {"HOME": str(home), "PATH": f"{GUA.parent}:{environ['PATH']}", "TERM": "xterm", "COLUMNS": "200"}
    done = subprocess.run([GUA, "--install-completion", shell], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{shell} completion installed in {home}/")
    assert done.stderr == ""
    return environ


def typed(shell: str, environ: dict[str, str], keys: str, until: str) -> str:
    """Return what an interactive shell on a terminal shows after the keys, as soon as it shows ``until``."""
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(environ["HOME"])
        os.execvpe(shell, [shell, *FLAGS[shell]], environ)  # noqa: S606 - the shell is what is tested
    shown = ""
    try:
        deadline = time.monotonic() + 60
        ready = select.poll()  # unlike select, of descriptors above 1023 too
        ready.register(terminal, select.POLLIN)
        os.write(terminal, keys.encode())
        while until not in shown and time.monotonic() < deadline:
            if ready.poll(1000):
                shown += _CONTROLS.sub("", os.read(terminal, 65536).decode(errors="replace"))
    except OSError as error:  # it ended
        shown += str(error)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    return shown


@pytest.mark.parametrize("shell", INSTALLED)
def test_tab_completes_in_a_real_shell(shell: str, tmp_path: Path) -> None:
    environ = installed(shell, tmp_path / "home")
    assert "--section headline" in typed(shell, environ, "gua report --section headl\t", "--section headline")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_completion_script_can_be_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        frame.main(["--show-completion", shell])
    assert f"_GUA_COMPLETE=complete_{shell}" in capsys.readouterr().out


def test_the_existing_content_of_the_shells_file_stays(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.bashrc").write_text("alias ll='ls -l'")
    installed("bash", tmp_path / "home")
    assert (tmp_path / "home/.bashrc").read_text().startswith("alias ll='ls -l'\n")


@pytest.mark.parametrize(("arguments", "shell"), [(["tcsh"], ""), (["bash", "zsh"], ""), ([], "/bin/tcsh"), ([], "")])
def test_an_unsupported_shell_is_refused_with_the_supported_ones(
    arguments: list[str], shell: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", shell)
    assert frame.main(["--install-completion", *arguments]) == 2
    assert "bash, zsh, fish: name one" in capsys.readouterr().err
