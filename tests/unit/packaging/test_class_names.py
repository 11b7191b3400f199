"""One word has one meaning: a public class of gua bears a name that no other has."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import gua

SOURCE = Path(gua.__file__).parent
TWICE = {
    "Card": "of a report, and of gua explain",
    "CardRow": "of an import, and of the store's history",
    "Cell": "of a query of streaks, and of a comparison with gpu-usage-audit 1.x",
    "Column": "of a table in text, and of a view",
    "Day": "of the calendar, and one that the store holds",
    "Kind": "of a metric, and of a view's value",
    "ProcessRow": "of gua explain, and of the store's history",
    "Verdict": "on a card, and on a condition",
    "View": "of the report, and of gua top",
}
"""Names that still have several meanings, to be parted; never add one."""


def test_no_two_classes_have_one_name() -> None:
    files: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(str(path.relative_to(SOURCE)))
    twice = {name: places for name, places in files.items() if len(places) > 1}
    assert not {name: places for name, places in twice.items() if name not in TWICE}
