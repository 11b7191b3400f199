"""docs/explain.md shows what its own commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gua.cli.main import main

PAGE = Path(__file__).parents[3] / "docs" / "explain.md"


@pytest.mark.engine
def test_the_example_is_what_its_commands_print(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GUA_WIDTH", raising=False)
    page = PAGE.read_text("utf-8")
    commands = re.findall(r"^\$ gua (.*)$", page, re.MULTILINE)
    assert len(commands) == 2
    printed = ""
    for command in commands:
        assert main(shlex.split(command.replace("/tmp/gua-demo", str(tmp_path / "store")))) == 0  # noqa: S108 - as the page has it
        printed = capsys.readouterr().out
    (shown,) = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    head, tail = shown.split("...\n\n")
    assert printed.startswith(head)
    assert printed.endswith(tail)
