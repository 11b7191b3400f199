"""The check of the project's size: it counts, and says what is too much."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

CHECK = runpy.run_path(str(Path(__file__).resolve().parents[3] / "docs" / "check_budget.py"))


def test_a_measure_over_its_limit_is_reported_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = CHECK["main"]
    measure = CHECK["Measure"]("lines of README", ("README.md",), CHECK["lines"], 1)
    monkeypatch.setitem(main.__globals__, "MEASURES", (measure,))
    assert main() == 1
    assert capsys.readouterr().out.endswith(" of 1 exceeds the budget\n")
    monkeypatch.setitem(main.__globals__, "MEASURES", (measure._replace(limit=10_000),))
    assert main() == 0
    assert "exceeds" not in capsys.readouterr().out


def test_lines_words_and_the_longest_file_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one two\nthree\n")
    (tmp_path / "b").write_text("four\n")
    files = [tmp_path / "a", tmp_path / "b"]
    counts = [count(files) for count in (CHECK["lines"], CHECK["most_lines"], CHECK["words"])]
    assert counts == [3, 2, 4]
