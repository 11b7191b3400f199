"""Check the size of the project against its budget: `.venv/bin/python docs/check_budget.py`.

Prints each measure with its limit, and exits with 1 if one is exceeded. It counts the files that git has or would add.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]


class Measure(NamedTuple):
    """What is counted of the files that match the patterns of git, and how much of it there may be."""

    name: str
    patterns: tuple[str, ...]
    count: Callable[[Iterable[Path]], int]
    limit: int


def lines(files: Iterable[Path]) -> int:
    """Return the lines of all files."""
    return sum(len(file.read_text("utf-8").splitlines()) for file in files)


def most_lines(files: Iterable[Path]) -> int:
    """Return the lines of the longest file."""
    return max(lines([file]) for file in files)


def words(files: Iterable[Path]) -> int:
    """Return the words of all files."""
    return sum(len(file.read_text("utf-8").split()) for file in files)


def number(files: Iterable[Path]) -> int:
    """Return how many files there are."""
    return len([*files])


_SRC: Final = ("src/gua/*.py",)
_SQL: Final = ("clickhouse/*",)
MEASURES: Final = (
    # The goal of lines is 48,000: lower this limit with every line that goes.
    Measure("lines of src/gua", _SRC, lines, 55_350),
    Measure("files of src/gua", _SRC, number, 380),
    Measure("lines of its longest file", _SRC, most_lines, 500),
    Measure("lines of clickhouse", _SQL, lines, 8_000),
    Measure("files of clickhouse", _SQL, number, 160),
    Measure("words of docs", ("docs/*.md",), words, 41_600),
)


def files_of(patterns: Iterable[str]) -> list[Path]:
    """Return the files that git has, or would add, and that are there."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [ROOT / line for line in dict.fromkeys(listed) if (ROOT / line).is_file()]


def main() -> int:
    """Print the measures and return the exit code."""
    is_over = False
    for measure in MEASURES:
        found = measure.count(files_of(measure.patterns))
        is_over |= found > measure.limit
        over = " exceeds the budget" if found > measure.limit else ""
        sys.stdout.write(f"{measure.name}: {found:,} of {measure.limit:,}{over}\n")
    return int(is_over)


if __name__ == "__main__":
    sys.exit(main())
