from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_of_metrics_is_current() -> None:
    render = runpy.run_path(str(DOCS / "generate_metrics.py"))["render"]
    assert (DOCS / "metrics.md").read_text() == render(), "run .venv/bin/python docs/generate_metrics.py"
