"""Text, any path and nothing are taken as they are, all else is checked as typer does, with the same words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer.main
from typer.exceptions import TyperException

from gua.cli.commands import leave_plain_values

SEEN: list[object] = []
PROGRAM = """
import sys
from gua.cli.main import main
print(main(sys.argv[1:]), "pydantic" in sys.modules)
"""


def command(
    *,
    word: Annotated[str | None, typer.Option(envvar="PLAIN_WORD")] = None,
    default: str = "as it is",
    path: Path | None = None,
    any_path: Annotated[Path | None, typer.Option(readable=False)] = None,
    there: Annotated[Path | None, typer.Option(readable=False, exists=True)] = None,
    folder: Annotated[Path | None, typer.Option(readable=False, file_okay=False)] = None,
    number: Annotated[int | None, typer.Option(min=1)] = None,
    many: Annotated[list[str] | None, typer.Option()] = None,
    turned: Annotated[str | None, typer.Option(parser=str.upper)] = None,
    called: Annotated[str | None, typer.Option(callback=lambda value: f"called with {value}")] = None,
) -> None:
    SEEN.append((word, default, path, any_path, there, folder, number, many, turned, called))


def needing(word: Annotated[str, typer.Option()]) -> None:
    SEEN.append(word)


def called(*arguments: str, function: object = command, plain: bool) -> object:
    app = typer.Typer(add_completion=False)
    app.command()(function)  # type: ignore[type-var] # whatever is to be called
    made = typer.main.get_command(app)
    if plain:
        leave_plain_values(made)
    SEEN.clear()
    try:
        made.main(args=list(arguments), standalone_mode=False)
    except TyperException as error:
        return error.format_message()
    return SEEN[0]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--word", "text"),
        ("--word", ""),
        ("--word=0", "--default", "other"),
        ("--path", "/a/b"),
        ("--any-path", "/a/b"),
        ("--any-path", __file__),
        ("--any-path", ""),
        ("--any-path", "a//b/../c/"),
        ("--there", "/a/b"),
        ("--folder", __file__),
        ("--number", "3"),
        ("--number", "0"),
        ("--number", "three"),
        ("--many", "a", "--many", "b"),
        ("--turned", "text"),
        ("--called", "text"),
        ("--word",),
        ("--nothing",),
    ],
)
@pytest.mark.parametrize("variable", [None, "from it"])
def test_they_are_what_typer_makes_of_them(
    arguments: tuple[str, ...], variable: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is not None:
        monkeypatch.setenv("PLAIN_WORD", variable)
    assert called(*arguments, plain=True) == called(*arguments, plain=False)


def test_a_missing_required_argument_is_named() -> None:
    missing = called(function=needing, plain=True)
    assert missing == called(function=needing, plain=False)
    assert "word" in str(missing)


@pytest.mark.parametrize("form", [("--brief",), ("--html", "page.html")])
def test_a_usual_command_loads_no_pydantic(form: tuple[str, ...], tmp_path: Path) -> None:
    given = [sys.executable, "-c", PROGRAM, "report", "--since", "30d", *form, "--store", str(tmp_path / "none")]
    done = subprocess.run(given, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3", "False"], done.stderr
