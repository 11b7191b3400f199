"""The files that docs/architecture.md names exist, and it names every package."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "src" / "gua"
PAGE = (ROOT / "docs/architecture.md").read_text("utf-8")


def named(line: str) -> list[str]:
    return [word for word in re.findall(r"`([^`\n]+)`", line) if re.fullmatch(r"[\w.-]+(/[\w.-]*)*", word)]


def test_every_file_that_the_page_sends_a_reader_to_exists() -> None:
    rows = [line for line in PAGE.partition("open Y\n")[2].splitlines() if line.startswith("| ")]
    assert len(rows) > 30
    for row in rows[1:]:
        folders = [ROOT, PACKAGE]
        for path in named(row.split(" | ")[1]):
            if "/" not in path and "." not in path:
                continue
            there = [folder / path for folder in folders if (folder / path).exists()]
            assert there, f"{path} in: {row}"
            folders.append(there[0].parent)


def test_every_package_stands_on_its_floor() -> None:
    packages = {each.name for each in PACKAGE.iterdir() if (each / "__init__.py").exists()}
    floors = PAGE.partition("## Floors")[2].partition("## ")[0]
    assert packages <= {path.rstrip("/") for path in named(floors)}
