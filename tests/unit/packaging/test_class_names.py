"""One word has one meaning: a public class of gua bears a name that no other has."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import gua

SOURCE = Path(gua.__file__).parent
TWICE = {
    "Asked": "options about form, and what a section is asked for",
    "Card": "of a report, of gua explain and of an import",
    "CardReader": "the driver, and what reads the rows of a file",
    "Column": "of a table on a page, of one in a terminal and of one in the store",
    "Database": "the spool's, and one of gpu-usage-audit 1.x",
    "Day": "of the calendar, and one that the store holds",
    "Endpoint": "one that gets ticks, and one that Prometheus asks",
    "Form": "in which a report is printed, that statements have, and of a family of metrics",
    "Host": "this one, and a simulated one",
    "Place": "of an identity, and of a simulated card",
    "Session": "with the driver, and with an endpoint",
    "Setting": "of a store, and of a simulation",
    "Source": "of ticks, and of an import's rows",
    "Stamps": "of the driver, and of an import's rows",
    "Taken": "by an endpoint, and by an import",
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
