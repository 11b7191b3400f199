"""The README shows true output."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_the_report_shown_is_the_golden_demo_report(request: pytest.FixtureRequest) -> None:
    readme = ROOT / "README.md"
    before, opening, rest = readme.read_text("utf-8").partition("```text\n")
    shown, closing, after = rest.partition("\n```")
    assert opening
    assert closing
    demo = (ROOT / "tests/golden/demo.txt").read_text("utf-8").rstrip("\n")
    if request.config.getoption("--update-golden"):
        readme.write_text(f"{before}{opening}{demo}{closing}{after}", "utf-8")
        shown = demo
    assert shown == demo, "look at the README, then run pytest --update-golden"
