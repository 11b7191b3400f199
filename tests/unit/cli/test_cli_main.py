"""The frame around every command: help without imports, one line for every error, the right exit code."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from gua.cli import commands as listed
from gua.cli import main as frame
from gua.core.errors import DataError, UnavailableError, UsageError

GUA = Path(sys.executable).with_name("gua")
HEAVY = ("typer", "rich", "clickhouse_connect", "opentelemetry", "google.protobuf", "chdb", "pynvml")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., None]], None]:
    """Return what hangs a function into ``gua`` as ``gua version``."""

    def hang(function: Callable[..., None]) -> None:
        module = types.ModuleType("gua.cli.version")
        module.command = function  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)

    return hang


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("gua: ")
    assert captured.out == ""
    return line


# The others are what the agent starts by itself, and a second name of a command.
SHOWN = [name for name, entry in listed.COMMANDS.items() if entry.summary]


def test_what_is_not_listed_is_the_agents_own_or_another_name() -> None:
    assert set(listed.COMMANDS) - set(SHOWN) == {"start", "land", "answer", "canhazgpu"}
    assert listed.COMMANDS["start"].module == listed.COMMANDS["daemon"].module


def test_help_lists_every_command_and_imports_none() -> None:
    code = (
        "import sys; from gua.cli.main import main; main(['--help']);"
        "print(*(name for name in sys.modules if not name.startswith('gua.core')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *shown, imported = done.stdout.splitlines()
    assert {line.split()[0] for line in shown if line.startswith("  ")} >= set(SHOWN)
    assert not set(imported.split()) & set(HEAVY)
    assert {name for name in imported.split() if name.startswith(("gua.cli.", "gua.app."))} == {
        "gua.cli.commands",
        "gua.cli.main",
        "gua.app.output",
    }


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_help_is_good(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.main(arguments) == 0
    assert capsys.readouterr().out == frame.overview()


@pytest.mark.parametrize("words", [["report"], ["import", "nvidia-smi"], ["schema"]])
def test_help_of_a_command_is_its_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.main(["help", *words]) == 0
    help_text = capsys.readouterr().out
    assert frame.main([*words, "--help"]) == 0
    assert capsys.readouterr().out == help_text
    assert help_text.startswith(f"Usage: gua {' '.join(words)}")


def test_the_options_of_a_report_are_in_groups_and_each_is_in_one(capsys: pytest.CaptureFixture[str]) -> None:
    from gua.cli.report import HELP_GROUPS  # noqa: PLC0415 - the commands are imported one by one

    command = get_command(listed.load("report"))
    grouped = [name for names in HELP_GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(str(one.name) for one in command.params if one.name != "help")
    assert frame.main(["report", "--help"]) == 0
    shown = capsys.readouterr().out
    headings = [line.removesuffix(":") for line in shown.splitlines() if line.endswith(":") and line[:1].isalpha()]
    assert headings[-len(HELP_GROUPS) - 1 :] == [*HELP_GROUPS, "Options"]


def commands() -> list[tuple[str, str]]:
    """Return every command's words and whole help text."""
    found = []
    for name in SHOWN:
        group = get_command(listed.load(name))
        if not listed.COMMANDS[name].group:
            found.append((name, group.help or ""))
            continue
        subcommands = group.commands[name].commands  # type: ignore[attr-defined]
        found += [(f"{name} {below}", subcommand.help or "") for below, subcommand in subcommands.items()]
    return found


@pytest.mark.parametrize(("words", "text"), commands())
def test_every_help_ends_in_an_example_of_the_command(words: str, text: str) -> None:
    *_, example = text.split("\n\n")
    head, *lines = example.removeprefix("\b\n").splitlines()
    assert head == "Example:"
    assert lines
    assert all(line.startswith(f"    gua {words}") for line in lines)


@pytest.mark.parametrize("name", SHOWN)
def test_every_command_prints_its_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: gua {name}" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_every_option_has_a_variable() -> None:
    for name in SHOWN:
        root = get_command(listed.load(name))
        group = root.commands[name].commands.values() if listed.COMMANDS[name].group else [root]  # type: ignore[attr-defined]
        for command in group:
            for option in command.params:
                if option.param_type_name == "option" and option.name != "help":
                    assert str(option.envvar).startswith("GUA_"), f"{name}: {option.name}"


@pytest.mark.parametrize(
    ("error", "code"),
    [(UsageError("no such thing"), 2), (UnavailableError("no such thing"), 3), (DataError("no such thing"), 4)],
)
def test_errors_are_one_line_and_a_code(
    command: Callable[[Callable[..., None]], None], capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    def fail() -> None:
        raise error

    command(fail)
    assert frame.main(["version"]) == code
    assert one_line(capsys) == "gua: no such thing"


def test_errors_carry_no_control_characters(
    command: Callable[[Callable[..., None]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        message = "cannot read \x1b[2J\u202ea\nb [bold]c[/bold]"
        raise UnavailableError(message)

    command(fail)
    frame.main(["version"])
    assert one_line(capsys) == "gua: cannot read [2Ja b [bold]c[/bold]"


def test_an_unexpected_fault_exits_with_3_and_shows_no_traceback(
    command: Callable[[Callable[..., None]], None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    command(fail)
    monkeypatch.delenv("GUA_DEBUG", raising=False)
    assert frame.main(["version"]) == 3
    assert "unexpected ZeroDivisionError" in one_line(capsys)
    monkeypatch.setenv("GUA_DEBUG", "1")
    assert frame.main(["version"]) == 3
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.EMFILE, "Too many open files", "/x"), "Too many open files: allow more, as with ulimit -n"),
        (OSError(errno.ENFILE, "Too many open files in system"), "Too many open files in system: allow more"),
        (ImportError("libx.so: cannot open shared object file: Too many open files"), "allow more, as with ulimit -n"),
        (MemoryError(), "there is not enough memory: allow more"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "there is not enough memory"),
        (RuntimeError("can't start new thread"), "there is not enough memory"),
    ],
)
def test_a_system_that_has_no_more_of_something_is_no_fault(
    error: Exception,
    words: str,
    command: Callable[[Callable[..., None]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise error

    command(fail)
    assert frame.main(["version"]) == 3
    said = one_line(capsys)
    assert words in said
    assert "fault in gua" not in said


def test_a_file_that_cannot_be_opened_is_no_fault(
    command: Callable[[Callable[..., None]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    command(lambda: Path("/nowhere/gua").read_text())  # type: ignore[arg-type, return-value]
    assert frame.main(["version"]) == 3
    assert one_line(capsys) == "gua: No such file or directory: /nowhere/gua"


def test_a_deleted_working_directory_is_reported(
    tmp_path: Path, command: Callable[[Callable[..., None]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def leave_directory() -> None:
        (tmp_path / "gone").mkdir()
        before = Path.cwd()
        os.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        try:
            Path.cwd()
        finally:
            os.chdir(before)

    command(leave_directory)
    assert frame.main(["version"]) == 3
    assert one_line(capsys) == "gua: the working directory is gone: change to one that is there"


def test_a_file_of_another_user_is_reported_with_what_to_do(
    command: Callable[[Callable[..., None]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def refused() -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/theirs/store")

    command(refused)
    assert frame.main(["version"]) == 3
    assert one_line(capsys) == (
        "gua: Permission denied: /theirs/store: it belongs to another user, run gua as one who may"
    )


def test_an_interrupt_is_130(
    command: Callable[[Callable[..., None]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    command(interrupted)
    assert frame.main(["version"]) == 130
    assert capsys.readouterr().err == ""


def test_a_command_may_choose_its_code(command: Callable[[Callable[..., None]], None]) -> None:
    def met() -> None:
        raise typer.Exit(1)

    command(met)
    assert frame.main(["version"]) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["reprot"], "did you mean report?"),
        (["nothing-like-it"], "there are demo, daemon"),
        (["--loud"], "no such option: --loud"),
        (["version", "--loud"], "--loud"),
        (["version", "more"], "more"),
        (["import"], "gua import --help"),
        (["import", "nvidia-smy"], "nvidia-smi"),
        (["report", "--width", "wide"], "--width"),
        (["report", "--width", "19"], "20 or more"),
        (["\x1b[2J"], "no such command: [2J"),
    ],
)
def test_wrong_usage_is_one_line_and_2(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.main(arguments) == 2
    assert said in one_line(capsys)


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version_has_what_a_report_of_a_fault_needs(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.main([option]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["gua", "python", "engine"]


def test_a_reader_that_goes_away_is_no_error() -> None:
    gone, out = os.pipe()
    os.close(gone)
    done = subprocess.run([GUA, "--help"], stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    os.close(out)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([GUA, "version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "gua: No space left on device\n")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_output_stream_is_no_error(closed: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" version {closed}', GUA],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_error_stays_short_whatever_was_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.main(["x" * 100_000]) == 2
    assert len(one_line(capsys)) < 5000
