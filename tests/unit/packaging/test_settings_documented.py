"""docs/operations.md documents every setting: those of the commands' options, and those that are read by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import typer.main

from gua.cli.commands import COMMANDS, load

ROOT = Path(__file__).resolve().parents[3]
VARIABLE = re.compile(r"`([A-Z][A-Z0-9_]+)`")
# Variables between processes of gua; users do not set them.
INTERNAL = {"GUA_AGENT_SETTINGS", "GUA_AGENT_READY"}
# Variables that gua run sets for a command.
SET_BY_GUA = {"GUA_RESERVATION"}
# Read by the libraries that send.
OF_LIBRARIES = {
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
}


def options(command: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str, str | None]]:
    """Yield (command, longest name, variable) of every option of a command and of those below it."""
    below: Mapping[str, object] = getattr(command, "commands", {})
    for name, each in below.items():
        yield from options(each, (*path, name))
    for parameter in getattr(command, "params", ()) if not below else ():
        names = [name for name in parameter.opts if name.startswith("--")]
        if names and names != ["--help"]:
            yield path, max(names, key=len), parameter.envvar


@pytest.fixture(scope="module")
def every_option() -> list[tuple[tuple[str, ...], str, str | None]]:
    return [
        option
        for name, entry in COMMANDS.items()
        if entry.summary
        for option in options(typer.main.get_command(load(name)), () if entry.group else (name,))
    ]


def section(heading: str) -> str:
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def rows() -> list[list[str]]:
    """Return the cells of every row of the settings' tables."""
    lines = section("Settings").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]


def documented() -> set[str]:
    """Return the variables that have a row."""
    return {name for row in rows() for name in VARIABLE.findall(row[0])}


def test_every_option_has_a_variable(every_option: list[tuple[tuple[str, ...], str, str | None]]) -> None:
    assert len(every_option) > 40
    assert [(path, name) for path, name, variable in every_option if not variable] == []


def test_every_option_of_every_command_has_a_row(every_option: list[tuple[tuple[str, ...], str, str | None]]) -> None:
    missing = {variable for _, _, variable in every_option} - documented()
    assert missing == set()


def test_every_row_names_the_options_and_commands_that_read_it(
    every_option: list[tuple[tuple[str, ...], str, str | None]],
) -> None:
    cells = {name: row for row in rows() for name in VARIABLE.findall(row[0])}
    for path, name, variable in every_option:
        assert variable is not None
        _, option, commands, *_ = cells[variable]
        # One row documents all of gua demo.
        assert f"`{name}`" in option or variable.startswith("GUA_DEMO_"), (variable, name)
        assert re.search(rf"\b{path[0]}\b", commands), (variable, path)


def test_every_documented_variable_is_read_by_the_code() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    read = set(re.findall(r"\"([A-Z][A-Z0-9_]+)\"", sources))
    # Read as a prefix and an ending: _variable(environ, "TIMEOUT").
    endings = {
        f"OTEL_EXPORTER_OTLP_{name}" for name in re.findall(r"_(?:variable|path)\(environ, \"([A-Z_]+)\"", sources)
    }
    assert documented() - read - endings == set()


def test_every_variable_that_is_read_by_name_has_a_row() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"\"((?:GUA|OTEL)_[A-Z0-9_]+[A-Z0-9])\"", sources))
    endings = {
        f"OTEL_EXPORTER_OTLP_{name}" for name in re.findall(r"_(?:variable|path)\(environ, \"([A-Z_]+)\"", sources)
    }
    metrics = {name for name in named if name.startswith("OTEL_EXPORTER_OTLP_METRICS_")}
    assert (named | endings) - metrics - INTERNAL - SET_BY_GUA - documented() == set()


def test_the_section_names_no_other_variable() -> None:
    named = set(VARIABLE.findall(section("Settings")))
    metrics = {name for name in named if name.startswith("OTEL_EXPORTER_OTLP_METRICS_")}
    assert {name for name in named if "_" in name} - metrics - documented() - OF_LIBRARIES == set()
