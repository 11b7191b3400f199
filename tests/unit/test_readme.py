"""The README shows true output."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_report_shown_is_the_golden_demo_report() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    shown = re.search(r"```text\n(Simulated numbers.*?)\n\.\.\.\n```", readme, re.DOTALL)
    assert shown is not None
    assert (ROOT / "tests/golden/demo.txt").read_text("utf-8").startswith(shown.group(1))
