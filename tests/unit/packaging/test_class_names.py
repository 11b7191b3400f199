"""One word has one meaning: a public class of gua bears a name that no other has."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import gua

SOURCE = Path(gua.__file__).parent


def test_no_two_classes_have_one_name() -> None:
    files: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(str(path.relative_to(SOURCE)))
    twice = {name: places for name, places in files.items() if len(places) > 1}
    assert not twice
