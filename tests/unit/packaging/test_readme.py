"""The README shows true output."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_the_report_shown_is_the_beginning_of_the_golden_demo_report(request: pytest.FixtureRequest) -> None:
    readme = ROOT / "README.md"
    before, opening, rest = readme.read_text("utf-8").partition("```text\n")
    shown, closing, after = rest.partition("\n...\n```")
    assert opening
    assert closing
    beginning = (ROOT / "tests/golden/demo.txt").read_text("utf-8").partition("\n\n3. ")[0]
    if request.config.getoption("--update-golden"):
        readme.write_text(f"{before}{opening}{beginning}{closing}{after}", "utf-8")
        shown = beginning
    assert shown == beginning, "look at the README, then run pytest --update-golden"
