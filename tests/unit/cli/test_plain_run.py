"""``gua run`` without typer: the same options as typer reads, and whatever is unusual is left to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from gua.app.reserving import RunOptions
from gua.cli.commands import load
from gua.cli.plain_run import FLAGS, VALUED, VARIABLES, plain_options


def test_they_are_the_options_of_the_command() -> None:
    declared = [each for each in typer.main.get_command(load("run")).params if each.param_type_name == "option"]
    flags = {name: each.name for each in declared for name in each.opts if getattr(each, "is_flag", False)}
    valued = {name: each.name for each in declared for name in each.opts if not getattr(each, "is_flag", False)}
    assert (flags, valued) == (FLAGS, VALUED)
    assert {each.envvar for each in declared} == VARIABLES | {"GUA_SOCKET", "GUA_HOME"}
    assert {each.name: each.default for each in declared} == {
        name: RunOptions.__dataclass_fields__[str(name)].default for name in [*flags.values(), *valued.values()]
    }


def test_the_usual_forms_are_read() -> None:
    line = ["-g", "2", "--gpu-ids", "0,3", "--wait", "1h", "--nonblock", "--socket", "/s", "--", "sh", "-c", "a -- b"]
    assert plain_options(line, {"GUA_HOME": "/h"}) == RunOptions(
        program=("sh", "-c", "a -- b"), gpus=2, gpu_ids="0,3", wait="1h", nonblock=True, socket=Path("/s")
    )
    assert plain_options(["--label", "kind=x", "--label", "model=y", "--", "true"], {}) == RunOptions(
        program=("true",), label=("kind=x", "model=y")
    )
    assert plain_options(["--", "true"], {"GUA_SOCKET": "/t"}) == RunOptions(program=("true",), socket=Path("/t"))


@pytest.mark.parametrize(
    "line",
    [
        "true",
        "--",
        "-g 1 true",
        "-g -- true",
        "-g -1 -- true",
        "-g two -- true",
        "-g2 -- true",
        "--gpus=2 -- true",
        "--help -- true",
        "--not-known -- true",
        "--note --wait -- true",
        "true --",
    ],
)
def test_what_is_unusual_is_left_to_typer(line: str) -> None:
    assert plain_options(line.split(), {}) is None


def test_a_variable_that_stands_for_an_option_is_left_to_typer() -> None:
    assert plain_options(["--", "true"], {"GUA_NOTE": "paper"}) is None


def test_typer_is_not_imported() -> None:
    code = (
        "import sys; from gua.cli.main import main; main(['run', '--socket', '/nonexistent/s', '--', 'true']);"
        " sys.exit('typer' in sys.modules or 'gua.core.tick' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "no agent listens" in done.stderr
