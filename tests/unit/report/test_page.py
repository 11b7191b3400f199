"""docs/report.md shows what its commands print: every one is run, and what it shows is what comes out."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gua.cli import main
from gua.cli.output_options import ALSO_FULL
from gua.report.section_list import default_sections, section_names

pytestmark = pytest.mark.engine

PAGE = Path(__file__).resolve().parents[3] / "docs" / "report.md"
LEFT_OUT = "[...]"


def blocks() -> list[tuple[str, list[list[str]]]]:
    """Return each command and the runs of lines that are shown of its output."""
    found = []
    for block in re.findall(r"^```console\n\$ gua (.*?)^```$", PAGE.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL):
        command, *lines = block.splitlines()
        runs: list[list[str]] = [[]]
        for line in lines:
            runs.append([]) if line == LEFT_OUT else runs[-1].append(line)
        found.append((command, [run for run in runs if run]))
    return found


@pytest.fixture(scope="module", autouse=True)
def lab(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the store that the page begins with."""
    dsn = f"chdb://{tmp_path_factory.mktemp('page') / 'lab'}"
    assert main.main(["demo", "--store", dsn]) == 0
    return dsn


@pytest.mark.parametrize(("command", "shown"), blocks(), ids=[command for command, _ in blocks()])
def test_a_command_prints_what_the_page_shows(
    command: str, shown: list[list[str]], lab: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GUA_STORE", lab)
    main.main(shlex.split(command))
    captured = capsys.readouterr()
    lines = [line.rstrip() for line in (captured.out + captured.err).replace("\r\n", "\n").splitlines()]
    start = 0
    for run in shown:
        places = [at for at in range(start, len(lines) - len(run) + 1) if lines[at : at + len(run)] == run]
        assert places, "\n".join(["not printed:", *run, "printed:", *lines])
        start = places[0] + len(run)


def test_the_page_shows_every_section_and_names_those_of_the_full_report() -> None:
    text = PAGE.read_text("utf-8")
    listed = text.partition("\n## Sections\n")[2].partition("\n### ")[0]
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| .* \| (.*) \|$", listed, flags=re.MULTILINE))
    assert tuple(rows) == section_names()
    assert {name for name, unless_chosen in rows.items() if unless_chosen.startswith("shown")} == {
        *default_sections(),
        *ALSO_FULL,
    }
